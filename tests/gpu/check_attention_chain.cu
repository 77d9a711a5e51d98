// The training attention chain against its fp64 reference: each kernel alone on fresh random inputs, and the fused pair
// against the separate kernels that it replaces (the same elements must be dropped).
#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/chain/attention_chain.hpp"
#include "kernels/reference/reference_chain.hpp"
#include "tests/gpu/check_buffers.cuh"
#include "tests/gpu/check_portable.hpp"
#include "tests/gpu/check_tools.cuh"

namespace plumbline {
namespace {

using checking::bf16;
using checking::Comparison;
using checking::Poisoned;

using K = RowwiseKind;
constexpr std::array kKinds{K::scale,
                            K::mask,
                            K::dropout,
                            K::dropout_backward,
                            K::softmax_backward,
                            K::scale_mask_softmax_dropout,
                            K::scale_mask_softmax_dropout_backward,
                            K::rmsnorm_backward};
constexpr std::size_t kMostElements = std::size_t{1} << 17;

/// Host values with a device copy as T.
template <class T>
class Input {
 public:
  Input() : device_(16) {}
  explicit Input(const Values& host) : device_(host.size() * sizeof(T) + 16), empty_(host.empty()) {
    std::vector<T> raw;
    raw.reserve(host.size());
    for (const double v : host) raw.push_back(static_cast<T>(static_cast<float>(v)));
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(device_.as(), raw.data(), raw.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  void* get() const { return empty_ ? nullptr : device_.as<void>(); }

 private:
  DeviceBuffer device_;
  bool empty_ = true;
};

class Drawer {
 public:
  explicit Drawer(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  std::uint64_t word() { return random_(); }

  Values normal(std::int64_t n, double spread = 1) {
    Values out(static_cast<std::size_t>(n));
    for (double& v : out) v = round_to_bf16(spread * normal_(random_));
    return out;
  }
  /// Additive padding mask: 0, or so low that nothing passes (as BERT's -10000, or -infinity).
  Values mask(std::int64_t cols) {
    Values out(static_cast<std::size_t>(cols));
    const double low = below(2) == 1 ? -std::numeric_limits<double>::infinity() : round_to_bf16(-10000);
    for (double& v : out) v = below(5) == 0 ? low : 0.0;
    if (below(4) == 0) out = normal(cols);  // any bias
    if (below(20) == 0) std::fill(out.begin(), out.end(), low);
    return out;
  }
  Values choice(std::int64_t n) {
    Values out(static_cast<std::size_t>(n));
    for (double& v : out) v = static_cast<double>(below(2));
    return out;
  }
  /// Rows of every holding, ragged ones among them; long ones that are walked seldom.
  Rowwise shape(RowwiseKind kind) {
    constexpr std::array<std::int64_t, 12> kWidths{64, 128, 256, 384, 512, 1024, 2048, 4096, 8192, 16384, 32768, 40960};
    Rowwise s{kind};
    s.cols = kWidths[static_cast<std::size_t>(below(below(4) == 0 ? 12 : 8))];
    if (below(2) == 1) s.cols = 1 + below(s.cols);
    s.residual = kind == K::rmsnorm_backward && below(2) == 1;
    s.rows = 1 + below(std::min<std::int64_t>(300, static_cast<std::int64_t>(kMostElements) / s.cols));
    return s;
  }
  ChainSettings settings() {
    constexpr std::array<double, 4> kDrops{0.0, 0.1, 0.5, 0.9};
    return {below(2) == 1 ? 0.125F : 1.0F / 11, kDrops[static_cast<std::size_t>(below(4))], word(), word()};
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

/// The inputs that the operator has.
ChainInputs draw(const Rowwise& s, const ChainSettings& c, Drawer& random) {
  const std::int64_t n = s.rows * s.cols;
  ChainInputs in;
  if (s.kind != K::dropout_backward) in.x = random.normal(n, 4);
  if (s.kind == K::softmax_backward || s.kind == K::dropout) {  // probabilities
    const ChainResult p = reference_attention_chain({K::scale_mask_softmax_dropout, s.rows, s.cols}, {1, 0, 0, 0},
                                                    {in.x, {}, Values(static_cast<std::size_t>(s.cols)), {}, {}});
    std::transform(p.y.begin(), p.y.end(), in.x.begin(), round_to_bf16);
  }
  if (s.kind == K::dropout_backward) in.keep_mask = random.choice(n);
  if (s.kind == K::mask || s.kind == K::scale_mask_softmax_dropout || s.kind == K::scale_mask_softmax_dropout_backward)
    in.mask = random.mask(s.cols);
  if (s.kind == K::rmsnorm_backward) in.mask = random.normal(s.cols);
  if (s.residual) in.residual = random.normal(n);
  if (s.kind == K::dropout_backward || s.kind == K::softmax_backward || s.kind == K::rmsnorm_backward ||
      s.kind == K::scale_mask_softmax_dropout_backward)
    in.dy = random.normal(n);
  if (s.kind == K::scale_mask_softmax_dropout_backward) {
    in.log_sum = reference_attention_chain({K::scale_mask_softmax_dropout, s.rows, s.cols}, c, in).log_sum;
  }
  return in;
}

/// Outputs of one launch.
struct Outputs {
  Poisoned y{kMostElements * 2}, keep_mask{kMostElements}, log_sum{kMostElements * 4};
};

/// Relative: rounding to bf16 (1/256), and what fp32 loses before it in exponents of |x a + m - log sum| up to 20 and
/// in the sum of a row: most where all keys of a row are masked by -10000 (near it fp32 steps by 2^-10). Differences of
/// nearly equal terms (dp - sum) are off by fp32's share of the terms, not of themselves; with a single column nothing
/// else is left, hence the absolute part.
struct Tolerance {
  double relative = 0, of_largest = 0, absolute = 0;
};
constexpr Tolerance kExact{}, kNarrow{1.0 / 256 + 1.0 / 1024, 2e-5, 0}, kFloat{1e-5, 2e-5, 0};
Tolerance gradient_tolerance(const ChainSettings& c) {
  return {1.0 / 256 + 1.0 / 1024, 2e-5, 1e-5 * kept_scale(c.drop)};
}

void compare(const std::string& what, const Values& got, const Values& want, Tolerance allowed, Check& c) {
  Comparison all;
  double largest = 0;
  for (const double w : want) largest = std::max(largest, std::isinf(w) ? 0.0 : std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isinf(want[i])) {
      if (got[i] != want[i]) c.fault = what + " " + std::to_string(i) + ": expected infinity";
      continue;
    }
    const double bound = allowed.relative * std::abs(want[i]) + allowed.of_largest * largest + allowed.absolute;
    all.add(got[i], want[i], bound, what + " " + std::to_string(i));
  }
  if (c.fault.empty()) c.fault = all.fault;
  c.error = std::max(c.error, all.error());
}

std::string text(const Rowwise& s, const ChainSettings& c) {
  return "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols) + " drop " + std::to_string(c.drop);
}

Check check_one(const Rowwise& s, const ChainSettings& c, Drawer& random, Outputs& out) {
  const ChainInputs in = draw(s, c, random);
  const ChainResult want = reference_attention_chain(s, c, in);
  const Input<bf16> x(in.x), dy(in.dy), mask(in.mask), residual(in.residual);
  const Input<unsigned char> keep_mask(in.keep_mask);
  const Input<float> log_sum(in.log_sum);
  const auto n = static_cast<std::size_t>(s.rows * s.cols);
  ChainBuffers b;
  b.x = x.get();
  b.dy = dy.get();
  b.mask = mask.get();
  b.residual = residual.get();
  b.y = out.y.prepare(n * 2);
  b.keep_mask = s.kind == K::dropout ? out.keep_mask.prepare(n) : keep_mask.get();
  const bool writes_log_sum = s.kind == K::scale_mask_softmax_dropout;
  b.log_sum = writes_log_sum ? out.log_sum.prepare(static_cast<std::size_t>(s.rows) * 4) : log_sum.get();
  launch_attention_chain(s, c, b, nullptr);
  Check result{std::string(name(s.kind)), text(s, c), 0, checking::kBf16Rounding, ""};
  compare("y", to_values(out.y.read<bf16>()), want.y, in.dy.empty() ? kNarrow : gradient_tolerance(c), result);
  bool overrun = out.y.overrun();
  if (s.kind == K::dropout) {
    compare("keep_mask", to_values(out.keep_mask.read<unsigned char>()), want.keep_mask, kExact, result);
    overrun = overrun || out.keep_mask.overrun();
  }
  if (writes_log_sum) {
    compare("log sum", to_values(out.log_sum.read<float>()), want.log_sum, kFloat, result);
    overrun = overrun || out.log_sum.overrun();
  }
  if (overrun) result.fault = "wrote past the end";
  if (result.fault.empty() && !(result.error <= result.allowed)) result.fault = "relative error too large";
  return result;
}

/// Fused forward, then fused backward from what it wrote, against the reference of both; run twice, to the last bit.
Check check_pair(Drawer& random, Outputs& out) {
  const Rowwise forward = random.shape(K::scale_mask_softmax_dropout);
  Rowwise backward = forward;
  backward.kind = K::scale_mask_softmax_dropout_backward;
  const ChainSettings c = random.settings();
  const ChainInputs in = draw(backward, c, random);
  const Input<bf16> x(in.x), dy(in.dy), mask(in.mask);
  const auto n = static_cast<std::size_t>(forward.rows * forward.cols);
  Check result{"attention chain, forward and backward", text(forward, c), 0, checking::kBf16Rounding, ""};
  std::vector<Values> runs;
  for (int run = 0; run < 2; ++run) {
    void* log_sum = out.log_sum.prepare(static_cast<std::size_t>(forward.rows) * 4);
    launch_attention_chain(forward, c, {x.get(), nullptr, mask.get(), out.y.prepare(n * 2), nullptr, log_sum}, nullptr);
    launch_attention_chain(backward, c, {x.get(), dy.get(), mask.get(), out.y.prepare(n * 2), nullptr, log_sum},
                           nullptr);
    runs.push_back(to_values(out.y.read<bf16>()));
  }
  compare("gradient", runs[0], reference_attention_chain(backward, c, in).y, gradient_tolerance(c), result);
  if (runs[0] != runs[1]) result.fault = "two runs differ";
  return result;
}

}  // namespace

std::vector<Check> check_attention_chain(unsigned seed, int shapes) {
  Drawer random(seed);
  Outputs out;
  std::vector<Check> checks;
  for (int i = 0; i < shapes; ++i) {
    for (const RowwiseKind kind : kKinds)
      checks.push_back(check_one(random.shape(kind), random.settings(), random, out));
    if (i % 4 == 0) checks.push_back(check_pair(random, out));
  }
  return checks;
}

}  // namespace plumbline
