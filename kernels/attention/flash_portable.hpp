// Launcher of the portable flash attention forward (mma.sync, cp.async), in plain C++; the rules of launch.hpp. bf16 and
// fp16, head widths 64 and 128, causal and not, grouped queries, any lengths.
#pragma once

#include "kernels/attention/attention.hpp"

namespace plumbline {

/// Why it does not run, or null.
const char* flash_portable_refusal(const AttentionPrefill& shape, const AttentionPlan& plan);
void launch_flash_portable(const AttentionPrefill& shape, const AttentionPlan& plan, const PrefillBuffers& buffers,
                           StreamHandle stream);

}  // namespace plumbline
