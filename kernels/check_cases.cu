// Every kernel against its reference, before anything is timed.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "kernels/cases.hpp"
#include "kernels/launch.hpp"
#include "kernels/measure.cuh"
#include "kernels/reference.hpp"

namespace plumbline {
namespace {

constexpr unsigned char kPoison = 0xff;  // as bf16 and fp32: NaN, as an index: -1
constexpr std::size_t kGuard = 4096;     // bytes behind an output that nobody may write

using Stored = std::vector<__nv_bfloat16>;

class Inputs {
 public:
  explicit Inputs(unsigned seed) : random_(seed) {}

  /// Normal values that bf16 holds exactly.
  Values values(std::int64_t n) {
    Values out(static_cast<std::size_t>(n));
    for (double& v : out) v = round_to_bf16(normal_(random_));
    return out;
  }
  std::vector<std::int32_t> below(std::int64_t n, int limit) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(n));
    for (std::int32_t& v : out) v = static_cast<std::int32_t>(random_() % static_cast<unsigned>(limit));
    return out;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

/// Device copy of host values as bf16; at least one vector large, so that an empty one has an address too.
class OnDevice {
 public:
  explicit OnDevice(const Values& host) : OnDevice(to_bf16(host)) {}
  template <class T>
  explicit OnDevice(const std::vector<T>& host) : buffer_(host.size() * sizeof(T) + 16), empty_(host.empty()) {
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(buffer_.as(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  void* get() const { return empty_ ? nullptr : buffer_.as<void>(); }

 private:
  static Stored to_bf16(const Values& host) {
    Stored out;
    out.reserve(host.size());
    for (const double v : host) out.push_back(__double2bfloat16(v));
    return out;
  }
  DeviceBuffer buffer_;
  bool empty_;
};

/// Poisoned device memory with a guard behind it.
class Output {
 public:
  explicit Output(std::size_t bytes) : bytes_(bytes), buffer_(bytes + kGuard) {
    PLUMBLINE_CUDA_CHECK(cudaMemset(buffer_.as(), kPoison, buffer_.bytes()));
  }
  void* get() const { return buffer_.as<void>(); }

  template <class T>
  std::vector<T> read() {
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<unsigned char> raw(buffer_.bytes());
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(raw.data(), buffer_.as(), raw.size(), cudaMemcpyDeviceToHost));
    for (std::size_t i = bytes_; i < raw.size(); ++i) overrun_ = overrun_ || raw[i] != kPoison;
    std::vector<T> out(bytes_ / sizeof(T));
    std::memcpy(static_cast<void*>(out.data()), raw.data(), out.size() * sizeof(T));
    return out;
  }
  /// Whether the last read found something behind the end.
  bool overrun() const { return overrun_; }

 private:
  std::size_t bytes_;
  DeviceBuffer buffer_;
  bool overrun_ = false;
};

/// What one rounding to bf16 can do to ||out - ref|| / ||ref|| of n elements; fp32 maths adds far less (2^-16 is room
/// for it). Never above half a unit in the last place, 2^-8. Of many elements: errors uniform in +-2^-8 have a root
/// mean square of 2^-7 / sqrt(12), relative to mantissas of 1 (the true ones lie in [1, 2), so this has room too); the
/// spread of such a mean over n normal values is about 1 / sqrt(n) of it, of which three are allowed.
double rounding(std::size_t n) {
  const double typical = std::ldexp(1.0, -7) / std::sqrt(12.0);
  const double allowed = typical * (1.0 + 3.0 / std::sqrt(static_cast<double>(n)));
  return std::min(std::ldexp(1.0, -8), allowed) + std::ldexp(1.0, -16);
}

Check judge(const std::string& op, const std::string& shape, const Values& got, const Values& want, double allowed) {
  Check c{op, shape, 0, allowed, ""};
  double difference = 0, size = 0, largest = 0;
  for (const double w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = got[i] - want[i];
    difference += d * d;
    size += want[i] * want[i];
    // each element too: an error of one would drown in the norm of a large result
    const double bound = allowed > 0 ? std::abs(want[i]) / 128 + largest / 1024 : 0.0;
    if (!(std::abs(d) <= bound) && c.fault.empty()) {
      c.fault = "element " + std::to_string(i) + ": " + std::to_string(got[i]) + " for " + std::to_string(want[i]);
    }
  }
  c.error = size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
  if (!(c.error <= allowed) && c.fault.empty()) c.fault = "relative error too large";
  return c;
}

template <class T>
Values to_values(const std::vector<T>& raw) {
  Values out;
  out.reserve(raw.size());
  for (const T v : raw) out.push_back(static_cast<double>(static_cast<float>(v)));
  return out;
}
Values to_values(const std::vector<std::int32_t>& raw) { return Values(raw.begin(), raw.end()); }

std::string rows_cols(const Rowwise& s) {
  return "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols) + (s.residual ? ";residual=1" : "");
}

void check_rowwise(const Rowwise& s, Inputs& random, std::vector<Check>& out) {
  const std::int64_t n = s.rows * s.cols;
  const bool norm = s.kind == RowwiseKind::layernorm || s.kind == RowwiseKind::rmsnorm;
  const bool one_each = s.kind == RowwiseKind::sum_rows || s.kind == RowwiseKind::argmax;
  RowwiseInputs in;
  in.x = random.values(s.kind == RowwiseKind::swiglu ? 2 * n : n);
  if (s.residual || s.kind == RowwiseKind::add) in.second = random.values(n);
  if (norm) in.weight = random.values(s.cols);
  if (s.kind == RowwiseKind::layernorm) in.bias = random.values(s.cols);
  const OnDevice x(in.x), second(in.second), weight(in.weight), bias(in.bias);
  const std::int64_t results = one_each ? s.rows : n;
  Output y(static_cast<std::size_t>(results) * (s.kind == RowwiseKind::argmax ? 4 : 2));
  Output sum(s.residual ? static_cast<std::size_t>(n) * 2 : 0);
  launch_rowwise(s, {x.get(), second.get(), weight.get(), bias.get(), y.get(), s.residual ? sum.get() : nullptr},
                 nullptr);
  const Values got =
      s.kind == RowwiseKind::argmax ? to_values(y.read<std::int32_t>()) : to_values(y.read<__nv_bfloat16>());
  const bool exact =
      s.kind == RowwiseKind::copy || s.kind == RowwiseKind::transpose_copy || s.kind == RowwiseKind::argmax;
  const RowwiseResult want = reference_rowwise(s, in);
  Check c = judge(std::string(name(s.kind)), rows_cols(s), got, want.y, exact ? 0 : rounding(want.y.size()));
  if (c.fault.empty() && s.residual) {
    const Check other = judge(c.op, c.shape, to_values(sum.read<__nv_bfloat16>()), want.sum, 0);
    if (!other.fault.empty()) c.fault = "residual: " + other.fault;
  }
  if (y.overrun() || sum.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

void check_rope(const Rope& s, Inputs& random, std::vector<Check>& out) {
  const Values x = random.values(s.tokens * s.heads * s.head_dim);
  const std::vector<std::int32_t> positions = random.below(s.tokens, 131072);
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
  const std::vector<std::int32_t> ids = random.below(s.rows, kVocabulary);
  const OnDevice rows(table), which(ids);
  Output y(static_cast<std::size_t>(s.rows * s.cols) * 2);
  launch_embedding(s, rows.get(), static_cast<const std::int32_t*>(which.get()), y.get(), nullptr);
  Check c = judge("embedding", "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols),
                  to_values(y.read<__nv_bfloat16>()), reference_embedding(s, table, ids), 0);
  if (y.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

/// Twice with one scratch: the first launch must leave it ready for the second, and both must agree to the last bit.
void check_sum_all(const Scan& s, Inputs& random, std::vector<Check>& out) {
  const Values x = random.values(s.n);
  const OnDevice in(x);
  const DeviceBuffer scratch(sum_all_scratch_bytes());
  PLUMBLINE_CUDA_CHECK(cudaMemset(scratch.as(), 0, scratch.bytes()));
  Output first(sizeof(float)), second(sizeof(float));
  for (Output* y : {&first, &second}) {
    launch_sum_all(s, in.get(), static_cast<float*>(y->get()), scratch.as<void>(), nullptr);
  }
  const float a = first.read<float>()[0], b = second.read<float>()[0];
  const double want = reference_sum_all(x);
  // fp32 partial sums of n normal values: their errors grow like the sum itself, sqrt(n), which may cancel
  const double scale = std::sqrt(static_cast<double>(s.n));
  Check c{"sum_all", "n=" + std::to_string(s.n), std::abs(static_cast<double>(a) - want) / scale, 1e-4, ""};
  if (!(c.error <= c.allowed)) c.fault = std::to_string(a) + " for " + std::to_string(want);
  if (a != b) c.fault = "two runs differ";
  if (first.overrun() || second.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

}  // namespace

std::vector<Check> check_kernels(unsigned seed) {
  Inputs random(seed);
  std::vector<Check> out;
  using K = RowwiseKind;
  for (const K kind : {K::copy, K::add, K::silu, K::gelu, K::swiglu, K::transpose_copy, K::rmsnorm, K::layernorm,
                       K::softmax, K::sum_rows, K::argmax}) {
    const std::vector<std::pair<int, int>> shapes = {
        {1, 1},     {3, 7},     {5, 129},  {17, 1000}, {9, 256},    {33, 512},  {13, 1024},  {3, 1032},  {2, 2049},
        {4, 2048},  {3, 4096},  {2, 6144}, {5, 8192},  {3, 12288},  {2, 16384}, {2, 32768},  {2, 65536}, {2, 65544},
        {1, 70001}, {2, 20000}, {257, 63}, {65, 65},   {1000, 328}, {64, 5000}, {1024, 2880}};
    for (const auto& [rows, cols] : shapes) {
      Rowwise s{kind, rows, cols};
      check_rowwise(s, random, out);
      s.residual = kind == K::rmsnorm || kind == K::layernorm;
      if (s.residual) check_rowwise(s, random, out);
    }
  }
  const std::vector<Rope> ropes = {{1, 1, 2},   {3, 5, 6},     {7, 32, 128},   {2, 40, 64},
                                   {5, 3, 250}, {300, 8, 128}, {64, 128, 512}, {1000, 36, 80}};
  for (const Rope& s : ropes) check_rope(s, random, out);
  for (const Embedding& s : {Embedding{1, 1}, Embedding{3, 7}, Embedding{100, 8}, Embedding{33, 5000},
                             Embedding{1000, 4096}, Embedding{65, 129}}) {
    check_embedding(s, random, out);
  }
  for (const std::int64_t n : {1, 7, 8, 9, 1000, 4096, 65537, 1000003, 8388608}) {
    check_sum_all({ScanKind::sum_all, n, DType::bf16}, random, out);
  }
  return out;
}

}  // namespace plumbline
