// Rope and embedding against their references.
#include "kernels/common/launch.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_tools.cuh"

namespace plumbline {
namespace {

void check_rope(const Rope& s, Inputs& random, std::vector<Check>& out) {
  const Values x = random.values(s.tokens * s.heads * s.head_dim);
  const std::vector<std::int32_t> positions = random.ids(s.tokens, 131072);
  std::vector<float> frequency;
  for (std::int64_t i = 0; i < s.head_dim / 2; ++i) {
    frequency.push_back(static_cast<float>(std::pow(10000.0, -2.0 * static_cast<double>(i) / s.head_dim)));
  }
  const OnDevice start(x), where(positions), turns(frequency);
  Output y(x.size() * 2);
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(y.get(), start.get(), x.size() * 2, cudaMemcpyDeviceToDevice));
  launch_rope(s, y.get(), static_cast<const std::int32_t*>(where.get()), static_cast<const float*>(turns.get()),
              nullptr);
  const std::string shape =
      "tokens=" + std::to_string(s.tokens) + ";heads=" + std::to_string(s.heads) + ";D=" + std::to_string(s.head_dim);
  Check c = judge("rope", shape, to_values(y.read<__nv_bfloat16>()), reference_rope(s, x, positions, frequency),
                  rounding(x.size()));
  if (y.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

void check_embedding(const Embedding& s, Inputs& random, std::vector<Check>& out) {
  constexpr int kVocabulary = 1000;
  const Values table = random.values(kVocabulary * s.cols);
  const std::vector<std::int32_t> ids = random.ids(s.rows, kVocabulary);
  const OnDevice rows(table), which(ids);
  Output y(static_cast<std::size_t>(s.rows * s.cols) * 2);
  launch_embedding(s, rows.get(), static_cast<const std::int32_t*>(which.get()), y.get(), nullptr);
  Check c = judge("embedding", "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols),
                  to_values(y.read<__nv_bfloat16>()), reference_embedding(s, table, ids), 0);
  if (y.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

}  // namespace

std::vector<Check> check_moves(unsigned seed, int shapes) {
  Inputs random(seed);
  std::vector<Check> out;
  const std::vector<Rope> ropes = {{1, 1, 2},     {3, 5, 6},     {7, 32, 128},   {2, 40, 64},
                                   {5, 3, 250},   {300, 8, 128}, {64, 128, 512}, {1000, 36, 80},
                                   {5000, 1, 16}, {700, 1, 64},  {999, 3, 128},  {37, 10, 128}};
  for (const Rope& s : ropes) check_rope(s, random, out);
  for (auto i = static_cast<int>(ropes.size()); i < shapes; ++i) {
    const std::int64_t heads = random.size(128), width = 2 * random.size(256);
    const std::int64_t tokens = random.size(std::max(1.0, 131072.0 / static_cast<double>(heads * width)));
    check_rope({tokens, heads, random.below(2) == 0 ? width : (width + 15) / 16 * 16}, random, out);
  }
  for (const Embedding& s : {Embedding{1, 1}, Embedding{3, 7}, Embedding{100, 8}, Embedding{33, 5000},
                             Embedding{1000, 4096}, Embedding{65, 129}}) {
    check_embedding(s, random, out);
  }
  for (int i = 6; i < shapes; ++i) {
    const std::int64_t cols = random.size(1000);
    check_embedding({random.size(200), random.below(2) == 0 ? cols : (cols + 7) / 8 * 8}, random, out);
  }
  return out;
}

}  // namespace plumbline
