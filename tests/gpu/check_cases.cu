// Every kernel against its reference, before anything is timed.
#include <string>

#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_decode.hpp"
#include "tests/gpu/check_flash.hpp"
#include "tests/gpu/check_gemm.hpp"
#include "tests/gpu/check_portable.hpp"

namespace plumbline {

std::vector<Check> check_kernels(unsigned seed, int shapes, const TopicDone& done) {
  struct Topic {
    const char* name;
    std::vector<Check> (*check)(unsigned seed, int shapes);
  };
  static constexpr Topic kTopics[] = {{"row-wise", check_rowwise},
                                      {"rope, embedding", check_moves},
                                      {"reductions, scan", check_scans},
                                      {"top-k", check_topk},
                                      {"optimizer", check_adamw},
                                      {"training", check_training},
                                      {"GEMM (wgmma)", check_gemm},
                                      {"GEMM of gradients", check_gradient_products},
                                      {"GEMM (mma.sync)", check_gemm_portable},
                                      {"flash attention", check_flash},
                                      {"attention backward", check_backward},
                                      {"paged decode", check_decode},
                                      {"attention chain", check_attention_chain}};
  std::vector<Check> out;
  for (const Topic& topic : kTopics) {
    const std::vector<Check> more = topic.check(seed, shapes);
    out.insert(out.end(), more.begin(), more.end());
    if (done) done(topic.name, more);
  }
  return out;
}

}  // namespace plumbline
