/* SPDX-License-Identifier: Apache-2.0 */
/* The same from C++: what gives itself back, and a container in pinned memory. */
#include <dao/dao.hpp>

#include <iostream>
#include <vector>

int main()
{
    try {
        dao::library library;
        dao::device_place device{0};
        dao::pinned_place staging{0};
        std::vector<int, dao::allocator<int, dao::pinned_place>> there(1000, 7, staging),
            back(1000, 0, staging);
        dao::block<dao::device_place> block(device, there.size() * sizeof(int));
        dao::copy(device, block.get(), staging, there.data(), block.size());
        dao::copy(staging, back.data(), device, block.get(), block.size());
        std::cout << dao_backend_name() << ": " << dao::used(device) << " bytes went there and back\n";
        return there == back ? 0 : 1;
    } catch (const dao::error &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
