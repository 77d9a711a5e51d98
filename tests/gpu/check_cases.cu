// Every kernel against its reference, before anything is timed.
#include <algorithm>
#include <string>

#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_decode.hpp"
#include "tests/gpu/check_flash.hpp"
#include "tests/gpu/check_gemm.hpp"
#include "tests/gpu/check_portable.hpp"

namespace plumbline {

std::vector<Check> check_kernels(unsigned seed, int shapes, const TopicDone& done,
                                 const std::vector<std::string>& among) {
  struct Topic {
    const char* name;
    std::vector<Check> (*check)(unsigned seed, int shapes);
  };
  static constexpr Topic kTopics[] = {{"row-wise", check_rowwise},
                                      {"row-wise (fp16)", check_rowwise_fp16},
                                      {"rope, embedding", check_moves},
                                      {"reductions, scan", check_scans},
                                      {"top-k", check_topk},
                                      {"optimizer", check_adamw},
                                      {"training", check_training},
                                      {"GEMM (wgmma)", check_gemm},
                                      {"GEMM of gradients", check_gradient_products},
                                      {"GEMM (mma.sync)", check_gemm_portable},
                                      {"flash attention", check_flash},
                                      {"flash attention (mma.sync)", check_flash_portable},
                                      {"attention backward", check_backward},
                                      {"paged decode", check_decode},
                                      {"attention chain", check_attention_chain}};
  std::vector<Check> out;
  const auto asked = [&](const std::string& name) {
    return among.empty() || std::any_of(among.begin(), among.end(),
                                        [&](const std::string& word) { return name.find(word) != std::string::npos; });
  };
  for (const Topic& topic : kTopics) {
    if (!asked(topic.name)) continue;
    const std::vector<Check> more = topic.check(seed, shapes);
    out.insert(out.end(), more.begin(), more.end());
    if (done) done(topic.name, more);
  }
  return out;
}

}  // namespace plumbline
