// The short convolution before linear attention, as causal_conv1d's CUDA kernels run it.
#pragma once

#include "model/stacks/provider.hpp"
#include "ops/shape/causal_conv.hpp"

namespace plumbline {

/// Families of its two kernels. `prompt`: start_clk are the clocks of an SM that a CTA takes for up to 1024 tokens of one
/// channel, step_clk those beside them where values come one by one. `step`: start_clk those of a CTA of 64 channels.
struct ConvFamilies {
  const FamilyScalars &prompt, &step;
};

/// One launch: of more than one token a CTA for each channel of each sequence, whatever its length; of one token a thread
/// for each channel, which moves the channel's last inputs on.
void answer_conv(const CausalConv& shape, const ConvFamilies& families, const Question& question, Answer& answer);

}  // namespace plumbline
