// Rope, rope with the cache append, and embedding against their references.
#include <algorithm>
#include <numeric>

#include "kernels/common/launch.hpp"
#include "kernels/run/step.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_tools.cuh"

namespace plumbline {
namespace {

std::vector<float> frequencies(std::int64_t head_dim) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    out.push_back(static_cast<float>(std::pow(10000.0, -2.0 * static_cast<double>(i) / head_dim)));
  }
  return out;
}

std::string text_of(const Rope& s) {
  return "tokens=" + std::to_string(s.tokens) + ";heads=" + std::to_string(s.heads) +
         ";D=" + std::to_string(s.head_dim) + type_mark(s.dtype);
}

void check_rope(const Rope& s, Inputs& random, std::vector<Check>& out) {
  const Values x = random.values(s.tokens * s.heads * s.head_dim);
  const std::vector<std::int32_t> positions = random.ids(s.tokens, 131072);
  const std::vector<float> frequency = frequencies(s.head_dim);
  const OnDevice start(x, s.dtype), where(positions), turns(frequency);
  Output y(x.size() * 2);
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(y.get(), start.get(), x.size() * 2, cudaMemcpyDeviceToDevice));
  launch_rope(s, y.get(), static_cast<const std::int32_t*>(where.get()), static_cast<const float*>(turns.get()),
              nullptr);
  Check c = judge("rope", text_of(s), read_as(y, s.dtype), reference_rope(s, x, positions, frequency),
                  rounding(x.size()), s.dtype);
  if (y.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

/// Heads of one token, [first, first + count) of `heads`, of every token.
Values heads_of(const Values& x, const Rope& s, std::int64_t first, std::int64_t count) {
  Values out;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const auto from = x.begin() + (t * s.heads + first) * s.head_dim;
    out.insert(out.end(), from, from + count * s.head_dim);
  }
  return out;
}

/// Rows of the cache in random places, some of them nobody's: these must stay as they were.
void check_rope_append(const Rope& s, std::int64_t q_heads, Inputs& random, std::vector<Check>& out) {
  const std::int64_t kv = (s.heads - q_heads) / 2, row = kv * s.head_dim, rows = s.tokens + s.tokens / 4 + 1;
  const Values x = random.values(s.tokens * s.heads * s.head_dim);
  const std::vector<std::int32_t> positions = random.ids(s.tokens, 131072);
  std::vector<std::int32_t> places(static_cast<std::size_t>(rows));
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), std::mt19937(random.below(1000)));
  places.resize(static_cast<std::size_t>(s.tokens));
  const std::vector<float> frequency = frequencies(s.head_dim);
  const OnDevice qkv(x, s.dtype), where(positions), turns(frequency), to(places);
  Output q(static_cast<std::size_t>(s.tokens * q_heads * s.head_dim) * 2), k(static_cast<std::size_t>(rows * row) * 2),
      v(static_cast<std::size_t>(rows * row) * 2);
  RopeAppend b{qkv.get(), q.get(), k.get(), v.get()};
  b.rows = static_cast<const std::int32_t*>(to.get());
  b.positions = static_cast<const std::int32_t*>(where.get());
  b.inverse_frequency = static_cast<const float*>(turns.get());
  b.q_heads = q_heads;
  launch_rope_append(s, b, nullptr);
  const Values turned = reference_rope(s, x, positions, frequency);
  Values want = heads_of(turned, s, 0, q_heads), got = read_as(q, s.dtype);
  const Values keys = heads_of(turned, s, q_heads, kv), values = heads_of(x, s, q_heads + kv, kv);
  Check copied = judge("rope_append", text_of(s), {}, {}, 0);
  for (const bool key : {true, false}) {
    Values cache = read_as(key ? k : v, s.dtype);
    Values read;
    for (const std::int32_t place : places) {
      const auto from = cache.begin() + place * row;
      read.insert(read.end(), from, from + row);
      std::fill(from, from + row, std::numeric_limits<double>::quiet_NaN());
    }
    if (!std::all_of(cache.begin(), cache.end(), [](double e) { return std::isnan(e); })) {
      copied.fault = "wrote into another's row";
    }
    if (key) {
      want.insert(want.end(), keys.begin(), keys.end());
      got.insert(got.end(), read.begin(), read.end());
    } else if (copied.fault.empty()) {
      copied = judge("rope_append", text_of(s), read, values, 0, s.dtype);
    }
  }
  Check c = judge("rope_append", text_of(s), got, want, rounding(want.size()), s.dtype);
  if (c.fault.empty()) c.fault = copied.fault;
  if (q.overrun() || k.overrun() || v.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

void check_embedding(const Embedding& s, Inputs& random, std::vector<Check>& out) {
  constexpr int kVocabulary = 1000;
  const Values table = random.values(kVocabulary * s.cols);
  const std::vector<std::int32_t> ids = random.ids(s.rows, kVocabulary);
  const OnDevice rows(table, s.dtype), which(ids);
  Output y(static_cast<std::size_t>(s.rows * s.cols) * 2);
  launch_embedding(s, rows.get(), static_cast<const std::int32_t*>(which.get()), y.get(), nullptr);
  Check c =
      judge("embedding", "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols) + type_mark(s.dtype),
            read_as(y, s.dtype), reference_embedding(s, table, ids), 0, s.dtype);
  if (y.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

void check_type(DType type, unsigned seed, int shapes, std::vector<Check>& out) {
  Inputs random(seed, type);
  std::vector<Rope> ropes = {{1, 1, 2},      {3, 5, 6},      {7, 32, 128},  {2, 40, 64},  {5, 3, 250},   {300, 8, 128},
                             {64, 128, 512}, {1000, 36, 80}, {5000, 1, 16}, {700, 1, 64}, {999, 3, 128}, {37, 10, 128}};
  while (static_cast<int>(ropes.size()) < shapes) {
    const std::int64_t heads = random.size(128), width = 2 * random.size(256);
    const std::int64_t tokens = random.size(std::max(1.0, 131072.0 / static_cast<double>(heads * width)));
    ropes.push_back({tokens, heads, random.below(2) == 0 ? width : (width + 15) / 16 * 16});
  }
  for (Rope s : ropes) {
    s.dtype = type;
    check_rope(s, random, out);
    const std::int64_t kv = 1 + random.below(16), group = random.size(16);
    s.heads = kv * (group + 2);
    s.tokens = std::min<std::int64_t>(s.tokens, 1 + 262144 / (s.heads * s.head_dim));
    check_rope_append(s, kv * group, random, out);
  }
  std::vector<Embedding> tables = {{1, 1}, {3, 7}, {100, 8}, {33, 5000}, {1000, 4096}, {65, 129}};
  while (static_cast<int>(tables.size()) < shapes) {
    const std::int64_t cols = random.size(1000);
    tables.push_back({random.size(200), random.below(2) == 0 ? cols : (cols + 7) / 8 * 8});
  }
  for (Embedding s : tables) {
    s.dtype = type;
    check_embedding(s, random, out);
  }
}

}  // namespace

std::vector<Check> check_moves(unsigned seed, int shapes) {
  std::vector<Check> out;
  check_type(DType::bf16, seed, shapes, out);
  check_type(DType::fp16, seed + 1, shapes, out);
  return out;
}

}  // namespace plumbline
