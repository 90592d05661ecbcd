# SPDX-License-Identifier: Apache-2.0
"""What o.report() says."""
from dao.torch import fields

BINDINGS = ("operators bind: neither memory nor a faster way helps",
            "what comes back binds: a faster way in helps",
            "what leaves binds: a faster way out helps",
            "both ways bind: a faster one helps")


def report_text(o):
    figures, plan = o.figures, o.last_plan
    lines = [f"limit {o.limit_bytes / 1e6:.1f} MB, most in use {figures.get('peak_bytes', 0) / 1e6:.1f} MB; "
             f"{o.step_count} steps, {o.planned_count} as planned, {o.deviated_count} deviated"]
    if not o.step_ns:
        return lines[0]
    step_s = o.step_ns / 1e9
    lines.append(f"step {step_s * 1e3:.1f} ms: out {figures['out_bytes'] / 1e6:.1f} MB, in "
                 f"{figures['in_bytes'] / 1e6:.1f} MB; at this pace "
                 f"{figures['out_bytes'] / step_s * 86400 / 1e12:.2f} TB are written a day")
    lines.append(f"waited {figures['wait_in_ns'] / 1e6:.1f} ms for what came back, "
                 f"{figures['wait_out_ns'] / 1e6:.1f} ms for memory; {figures['fetch_count']} fetched and "
                 f"{figures['evicted_count']} evicted on demand")
    if plan is not None:
        bound, speeds = plan.problem.bound(o.library), plan.problem.speeds
        lines.append(f"forecast {plan.step_ns / 1e6:.1f} ms, bound {bound.step_ns / 1e6:.1f} ms, "
                     f"operators {plan.kernel_ns / 1e6:.1f} ms; planned in {plan.plan_ns / 1e6:.1f} ms")
        lines.append(f"{BINDINGS[bound.window_binding]}; with {bound.peak_bytes / 1e6:.1f} MB and holes "
                     f"nothing moves; planned for {speeds[0] / 1e9:.2f} GB/s in, "
                     f"{speeds[1] / 1e9:.2f} GB/s out")
    if o.unplanned:
        lines.append(o.unplanned)
    if o.last_learner is not None:
        lines.append(o.last_learner.peak_text())
    lines.append(o.weights.text())
    if fields.native is None:
        lines.append(f"hooks are Python, and dearer than those in C: {fields.why_python}")
    if o.has_pinned:
        lines.append("pinned memory is memory of the same machine as the model's, which is on the CPU: only "
                     "a file makes room")
    return "\n".join(lines)
