/* SPDX-License-Identifier: Apache-2.0 */
/* A network is a list of layers, each with what it reads and the shape of what it writes. Its step runs them
   in their order, and then backwards, layer by layer: the gradient of what a layer writes becomes those of
   what it reads. A gradient that several layers add to is changed in place. What a layer keeps for its way
   back is

       convolution, dense, norm, sum of the loss   what it read
       activation                                  what it wrote
       convolution with an activation, pool        both
       sum, concatenation, padding, upsampling     nothing

   Bytes are those of float32; weights and their gradients, which no scheme computes again, are left out, as
   is the gradient of the image. A layer takes the time of its operations at 10 TFLOP/s or of its bytes at 700
   GB/s, whichever is longer, and 5 us; backwards a convolution or dense layer takes twice its operations. */
#include "bench/traces/made_step.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#define FLOP_PER_NS    10000.0
#define BYTES_PER_NS   700.0
#define LAUNCH_NS      5000.0
#define BYTES_OF_FLOAT 4u

enum { LAYER_MAX = 256, USES_MAX = 8, NONE = -1, CLASSIFIER_BATCH = 64, SEGMENTER_BATCH = 16 };

typedef enum kind {
    KIND_IMAGE,
    KIND_WEIGHED,   /* convolution or dense */
    KIND_ACTIVATED, /* the same, with an activation */
    KIND_NORM,
    KIND_ACTIVATION,
    KIND_POOL,
    KIND_PLAIN, /* sum, concatenation, padding, cropping, upsampling */
    KIND_LOSS,
} layer_kind_t;

typedef struct layer {
    layer_kind_t kind;
    int first, second; /* layers that it reads; NONE */
    uint32_t height, width, depth;
    double flop; /* of a sample */
} layer_t;

typedef struct network {
    layer_t layers[LAYER_MAX];
    int count;
    uint32_t batch;
} network_t;

/* ---- layers; each returns its number ---- */

static int add(network_t *network, layer_t layer)
{
    DAO_ASSERT(network->count < LAYER_MAX);
    network->layers[network->count] = layer;
    return network->count++;
}

static layer_t same_as(const network_t *network, int from, layer_kind_t kind)
{
    layer_t layer = network->layers[from];
    layer.kind = kind;
    layer.first = from;
    layer.second = NONE;
    layer.flop = (double)layer.height * layer.width * layer.depth;
    return layer;
}

static int image(network_t *network, uint32_t height, uint32_t width)
{
    return add(network, (layer_t){KIND_IMAGE, NONE, NONE, height, width, 3, 0});
}

/* A convolution with a square kernel; `size` 0: each depth by itself, 3 x 3. */
static int conv(network_t *network, int from, uint32_t size, uint32_t depth, uint32_t stride,
                layer_kind_t kind)
{
    layer_t layer = same_as(network, from, kind);
    double reach = size == 0 ? 9 : (double)size * size * layer.depth;
    layer.height = (layer.height + stride - 1) / stride;
    layer.width = (layer.width + stride - 1) / stride;
    layer.depth = depth;
    layer.flop = 2 * reach * layer.height * layer.width * layer.depth;
    return add(network, layer);
}

static int dense(network_t *network, int from, uint32_t depth, layer_kind_t kind)
{
    layer_t layer = same_as(network, from, kind);
    double in = (double)layer.height * layer.width * layer.depth;
    layer.height = layer.width = 1;
    layer.depth = depth;
    layer.flop = 2 * in * depth;
    return add(network, layer);
}

static int plain(network_t *network, int from, layer_kind_t kind)
{
    return add(network, same_as(network, from, kind));
}

static int pool(network_t *network, int from, uint32_t stride)
{
    layer_t layer = same_as(network, from, KIND_POOL);
    layer.height /= stride;
    layer.width /= stride;
    return add(network, layer);
}

/* Grown by a factor, and by a border on each side. */
static int grown(network_t *network, int from, uint32_t factor, uint32_t border)
{
    layer_t layer = same_as(network, from, KIND_PLAIN);
    layer.height = layer.height * factor + 2 * border;
    layer.width = layer.width * factor + 2 * border;
    return add(network, layer);
}

static int joined(network_t *network, int from, int other, bool is_sum)
{
    layer_t layer = same_as(network, from, KIND_PLAIN);
    layer.second = other;
    layer.depth += is_sum ? 0 : network->layers[other].depth;
    return add(network, layer);
}

static int conv_norm(network_t *network, int from, uint32_t size, uint32_t depth, uint32_t stride,
                     bool is_active)
{
    int norm = plain(network, conv(network, from, size, depth, stride, KIND_WEIGHED), KIND_NORM);
    return is_active ? plain(network, norm, KIND_ACTIVATION) : norm;
}

/* Padded, and convolved without padding: what Keras models of segmentation do. */
static int pad_conv(network_t *network, int from, uint32_t depth)
{
    int padded = grown(network, from, 1, 1);
    layer_t layer = same_as(network, padded, KIND_WEIGHED);
    layer.height -= 2;
    layer.width -= 2;
    layer.flop = 2.0 * 9 * layer.depth * layer.height * layer.width * depth;
    layer.depth = depth;
    return plain(network, add(network, layer), KIND_NORM);
}

static int classes(network_t *network, int from)
{
    return plain(network, from, KIND_LOSS);
}

/* ---- networks ---- */

/* The five stages of VGG (Simonyan and Zisserman, 2014); `ends`: what each pool writes. */
static void vgg_stages(network_t *network, int from, int deep_count, int ends[5])
{
    static const uint32_t depths[] = {64, 128, 256, 512, 512};
    for (int stage = 0; stage < 5; stage++) {
        for (int i = 0; i < (stage < 2 ? 2 : deep_count); i++) {
            from = conv(network, from, 3, depths[stage], 1, KIND_ACTIVATED);
        }
        from = ends[stage] = pool(network, from, 2);
    }
}

static void make_vgg(network_t *network, int deep_count)
{
    int ends[5];
    network->batch = CLASSIFIER_BATCH;
    vgg_stages(network, image(network, 224, 224), deep_count, ends);
    int last = dense(network, ends[4], 4096, KIND_ACTIVATED);
    last = dense(network, last, 4096, KIND_ACTIVATED);
    (void)classes(network, dense(network, last, 1000, KIND_WEIGHED));
}

static void make_vgg16(network_t *network)
{
    make_vgg(network, 3);
}

static void make_vgg19(network_t *network)
{
    make_vgg(network, 4);
}

/* He et al., 2015. */
static void make_resnet50(network_t *network)
{
    static const int blocks[] = {3, 4, 6, 3};
    network->batch = CLASSIFIER_BATCH;
    int last = conv_norm(network, image(network, 224, 224), 7, 64, 2, true);
    last = pool(network, last, 2);
    for (uint32_t stage = 0; stage < 4; stage++) {
        uint32_t depth = 64u << stage;
        for (int i = 0; i < blocks[stage]; i++) {
            uint32_t stride = i == 0 && stage > 0 ? 2 : 1;
            int inner = conv_norm(network, last, 1, depth, stride, true);
            inner = conv_norm(network, inner, 3, depth, 1, true);
            inner = conv_norm(network, inner, 1, 4 * depth, 1, false);
            int beside = i == 0 ? conv_norm(network, last, 1, 4 * depth, stride, false) : last;
            last = plain(network, joined(network, inner, beside, true), KIND_ACTIVATION);
        }
    }
    last = pool(network, last, 7);
    (void)classes(network, dense(network, last, 1000, KIND_WEIGHED));
}

/* Howard et al., 2017. */
static void make_mobilenet(network_t *network)
{
    static const uint32_t depths[] = {64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024};
    static const uint32_t strides[] = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
    network->batch = CLASSIFIER_BATCH;
    int last = conv_norm(network, image(network, 224, 224), 3, 32, 2, true);
    for (int i = 0; i < 13; i++) {
        last = conv_norm(network, last, 0, network->layers[last].depth, strides[i], true);
        last = conv_norm(network, last, 1, depths[i], 1, true);
    }
    last = pool(network, last, 7);
    (void)classes(network, dense(network, last, 1000, KIND_WEIGHED));
}

/* The plain encoder of keras-segmentation. */
static void plain_encoder(network_t *network, int stage_count, int ends[5])
{
    static const uint32_t depths[] = {64, 128, 256, 256, 256};
    int last = image(network, 416, 608);
    network->batch = SEGMENTER_BATCH;
    for (int stage = 0; stage < stage_count; stage++) {
        last = plain(network, pad_conv(network, last, depths[stage]), KIND_ACTIVATION);
        last = ends[stage] = pool(network, last, 2);
    }
}

enum { CLASS_COUNT = 50 };

/* Long et al., 2014, on that encoder; transposed convolutions count as convolutions of what they write. */
static void make_fcn_8(network_t *network)
{
    int ends[5];
    plain_encoder(network, 5, ends);
    int last = conv(network, ends[4], 7, 4096, 1, KIND_ACTIVATED);
    last = plain(network, last, KIND_ACTIVATION); /* dropout keeps its mask */
    last = conv(network, last, 1, 4096, 1, KIND_ACTIVATED);
    last = plain(network, last, KIND_ACTIVATION);
    last = conv(network, last, 1, CLASS_COUNT, 1, KIND_WEIGHED);
    for (int stage = 3; stage >= 2; stage--) {
        last = conv(network, grown(network, last, 2, 0), 2, CLASS_COUNT, 1, KIND_WEIGHED);
        last = joined(network, last, conv(network, ends[stage], 1, CLASS_COUNT, 1, KIND_WEIGHED), true);
    }
    last = conv(network, grown(network, last, 8, 0), 2, CLASS_COUNT, 1, KIND_WEIGHED);
    (void)classes(network, plain(network, last, KIND_ACTIVATION));
}

/* Badrinarayanan et al., 2015, on that encoder. */
static void make_segnet(network_t *network)
{
    static const uint32_t depths[] = {256, 128, 64};
    int ends[5];
    plain_encoder(network, 4, ends);
    int last = pad_conv(network, ends[3], 512);
    for (int i = 0; i < 3; i++) {
        last = pad_conv(network, grown(network, last, 2, 0), depths[i]);
    }
    last = conv(network, last, 3, CLASS_COUNT, 1, KIND_WEIGHED);
    (void)classes(network, plain(network, last, KIND_ACTIVATION));
}

/* Ronneberger et al., 2015, with the stages of VGG16. */
static void make_vgg_unet(network_t *network)
{
    static const uint32_t depths[] = {256, 128, 64};
    int ends[5];
    network->batch = SEGMENTER_BATCH;
    vgg_stages(network, image(network, 416, 608), 3, ends);
    network->count = ends[4] - 3; /* nothing reads the fifth stage */
    int last = pad_conv(network, ends[3], 512);
    for (int i = 0; i < 3; i++) {
        last = joined(network, grown(network, last, 2, 0), ends[2 - i], false);
        last = pad_conv(network, last, depths[i]);
    }
    last = conv(network, last, 3, CLASS_COUNT, 1, KIND_WEIGHED);
    (void)classes(network, plain(network, last, KIND_ACTIVATION));
}

static const struct {
    const char *name;
    void (*make)(network_t *network);
} networks[] = {{"VGG16", make_vgg16},         {"VGG19", make_vgg19}, {"ResNet50", make_resnet50},
                {"MobileNet", make_mobilenet}, {"fcn_8", make_fcn_8}, {"segnet", make_segnet},
                {"vgg_unet", make_vgg_unet}};

const char *dao_made_step_name(size_t index)
{
    return index < sizeof(networks) / sizeof(networks[0]) ? networks[index].name : NULL;
}

/* ---- steps: tensor i is what layer i writes, tensor count + i the gradient of that ---- */

static void add_use(dao_swap_kernel_t *kernel, dao_swap_use_t *uses, int tensor, dao_access_t access)
{
    DAO_ASSERT(kernel->use_count < USES_MAX);
    uses[kernel->use_count++] = (dao_swap_use_t){(uint32_t)tensor, access};
}

static uint64_t bytes_of(const network_t *network, int layer)
{
    const layer_t *one = &network->layers[layer];
    return (uint64_t)BYTES_OF_FLOAT * network->batch * one->height * one->width * one->depth;
}

/* `passes`: over the operations of the layer. */
static uint64_t time_of(const network_t *network, const dao_swap_kernel_t *kernel, const dao_swap_use_t *uses,
                        int layer, double passes)
{
    double compute_ns = passes * network->layers[layer].flop * network->batch / FLOP_PER_NS, bytes = 0;
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        bytes += (double)bytes_of(network, (int)uses[u].tensor % network->count);
    }
    double memory_ns = bytes / BYTES_PER_NS;
    return (uint64_t)(LAUNCH_NS + (compute_ns > memory_ns ? compute_ns : memory_ns));
}

static void make_forward(const network_t *network, int layer, dao_swap_kernel_t *kernel, dao_swap_use_t *uses)
{
    const layer_t *one = &network->layers[layer];
    add_use(kernel, uses, one->first, DAO_ACCESS_READ);
    if (one->second != NONE) {
        add_use(kernel, uses, one->second, DAO_ACCESS_READ);
    }
    add_use(kernel, uses, layer, DAO_ACCESS_WRITE);
    kernel->time_ns = time_of(network, kernel, uses, layer, 1);
}

static void make_backward(const network_t *network, int layer, bool *has_gradient, dao_swap_kernel_t *kernel,
                          dao_swap_use_t *uses)
{
    const layer_t *one = &network->layers[layer];
    layer_kind_t kind = one->kind;
    if (kind != KIND_LOSS) {
        add_use(kernel, uses, network->count + layer, DAO_ACCESS_READ);
    }
    if (kind != KIND_ACTIVATION && kind != KIND_PLAIN) {
        add_use(kernel, uses, one->first, DAO_ACCESS_READ);
    }
    if (kind == KIND_ACTIVATION || kind == KIND_ACTIVATED || kind == KIND_POOL || kind == KIND_LOSS) {
        add_use(kernel, uses, layer, DAO_ACCESS_READ);
    }
    for (int i = 0; i < 2; i++) {
        int from = i == 0 ? one->first : one->second;
        if (from != NONE && network->layers[from].kind != KIND_IMAGE) {
            add_use(kernel, uses, network->count + from,
                    has_gradient[from] ? DAO_ACCESS_READ_WRITE : DAO_ACCESS_WRITE);
            has_gradient[from] = true;
        }
    }
    bool is_weighed = kind == KIND_WEIGHED || kind == KIND_ACTIVATED;
    kernel->time_ns = time_of(network, kernel, uses, layer, is_weighed ? 2 : 1);
}

dao_status_t dao_made_step(size_t index, dao_made_step_t *out_step)
{
    network_t network = {.count = 0};
    bool has_gradient[LAYER_MAX] = {false};
    networks[index].make(&network);
    size_t count = (size_t)network.count, kernels = 2 * (count - 1); /* the image has none */
    *out_step = (dao_made_step_t){.tensors = dao_host_calloc(2 * count, sizeof(*out_step->tensors)),
                                  .kernels = dao_host_calloc(kernels, sizeof(*out_step->kernels)),
                                  .uses = dao_host_calloc(kernels * USES_MAX, sizeof(*out_step->uses))};
    if (out_step->tensors == NULL || out_step->kernels == NULL || out_step->uses == NULL) {
        dao_made_step_finish(out_step);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a step of %zu kernels", kernels);
    }
    for (int i = 0; i < network.count; i++) {
        uint64_t bytes = bytes_of(&network, i);
        out_step->tensors[i] =
            (dao_swap_tensor_t){.size_bytes = bytes, .is_persistent = network.layers[i].kind == KIND_IMAGE};
        out_step->tensors[network.count + i] = (dao_swap_tensor_t){.size_bytes = bytes};
    }
    for (size_t k = 0; k < kernels; k++) {
        dao_swap_kernel_t *kernel = &out_step->kernels[k];
        dao_swap_use_t *uses = &out_step->uses[k * USES_MAX];
        *kernel = (dao_swap_kernel_t){.uses = uses, .is_repeatable = true};
        if (k < count - 1) {
            make_forward(&network, (int)k + 1, kernel, uses);
        } else {
            make_backward(&network, (int)(kernels - k), has_gradient, kernel, uses);
        }
    }
    out_step->problem = (dao_swap_problem_t){.tensors = out_step->tensors,
                                             .tensor_count = 2 * (uint32_t)count,
                                             .kernels = out_step->kernels,
                                             .kernel_count = (uint32_t)kernels};
    return DAO_OK;
}

void dao_made_step_finish(dao_made_step_t *step)
{
    dao_host_free(step->tensors);
    dao_host_free(step->kernels);
    dao_host_free(step->uses);
    *step = (dao_made_step_t){.tensors = NULL};
}
