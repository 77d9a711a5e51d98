// Any bytes as a GPU or cluster descriptor: the answer is a descriptor or an `Error`, never anything else.
#include <cstddef>
#include <cstdint>
#include <string>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "arch/gpu/gpu.hpp"
#include "arch/gpu/occupancy.hpp"
#include "arch/gpu/peaks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  const std::string text(data, data + size);
  try {
    const Gpu gpu = parse_gpu(text, "fuzz");
    // What was accepted must be usable.
    occupancy(gpu.sm, {gpu.sm.warp_size, gpu.sm.registers_per_thread, gpu.sm.smem_per_block});
    (void)ridge_point(gpu, DType::bf16, gpu.boost_clock);
  } catch (const Error&) {
  }
  try {
    // The first line as an override of a good descriptor.
    const std::string line = text.substr(0, text.find('\n'));
    const auto equals = line.find('=');
    if (equals != std::string::npos) load_gpu("h200_sxm", {{line.substr(0, equals), line.substr(equals + 1)}});
  } catch (const Error&) {
  }
  try {
    parse_cluster(text, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
