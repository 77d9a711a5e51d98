#include "validate/measure/cuda_step_check.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/launch.hpp"
#include "kernels/reference/reference.hpp"

namespace plumbline {
namespace {

constexpr int kSamples = 48;
constexpr double kBf16Bound = 0.02;  // half a unit in the last place is 0.004; attention rounds its weights too
constexpr double kRopeBound = 0.05;  // angles of thousands of radians in fp32

/// Reads bf16, e4m3, fp32 or int32 out of the step's buffers.
class Reader {
 public:
  Reader(const LoadedStep& step, DType type = DType::bf16) : step_(step), type_(type) {}

  Values read(const StepOperand& from, std::int64_t first, std::int64_t count) const {
    const std::size_t each = type_ == DType::fp8    ? 1
                             : type_ == DType::fp32 ? 4
                                                    : 2,
                      n = static_cast<std::size_t>(count);
    std::vector<unsigned char> raw(n * each);
    copy(raw.data(), step_.at(from) + static_cast<std::size_t>(first) * each, raw.size());
    Values out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = value(raw.data() + i * each);
    return out;
  }
  std::int32_t index(const StepOperand& from, std::int64_t at) const {
    std::int32_t out = 0;
    copy(&out, step_.at(from) + static_cast<std::size_t>(at) * 4, 4);
    return out;
  }

 private:
  static void copy(void* to, const void* from, std::size_t bytes) {
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }
  double value(const unsigned char* bytes) const {
    if (type_ == DType::fp8) return e4m3_value(*bytes);
    std::uint32_t wide = 0;
    if (type_ == DType::fp32) {
      std::memcpy(&wide, bytes, 4);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes, 2);
      wide = static_cast<std::uint32_t>(bits) << 16;
    }
    float out = 0;
    std::memcpy(&out, &wide, 4);
    return static_cast<double>(out);
  }

  const LoadedStep& step_;
  DType type_;
};

/// Largest difference over what is expected there, or over the root mean square where that is more.
class Difference {
 public:
  void add(double got, double want) { pairs_.emplace_back(got, want); }
  void add(const Values& got, const Values& want) {
    for (std::size_t i = 0; i < want.size(); ++i) add(got[i], want[i]);
  }
  double relative() const {
    double square = 0, worst = 0;
    for (const auto& [got, want] : pairs_) square += want * want;
    const double mean = pairs_.empty() ? 0 : std::sqrt(square / static_cast<double>(pairs_.size()));
    for (const auto& [got, want] : pairs_) {
      const double difference = std::abs(got - want) / std::max(mean, std::abs(want));
      worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
    }
    return worst;
  }

 private:
  std::vector<std::pair<double, double>> pairs_;
};

/// One operator that has just run.
class Checker {
 public:
  Checker(const LoadedStep& step, const StepLaunch& launch) : step_(step), l_(launch), bf16_(step) {}

  double bound = kBf16Bound;

  double operator()(const Gemm& s) {
    const Reader in(step_, s.precision.input == DType::fp8 ? DType::fp8 : DType::bf16);
    for (int i = 0; i < kSamples; ++i) {
      const std::int64_t row = below(s.m), col = below(s.n);
      const Values x = in.read(l_.x, row * s.k, s.k), w = in.read(l_.weight, col * s.k, s.k);
      double sum = 0;
      for (std::size_t k = 0; k < x.size(); ++k) sum += x[k] * w[k];
      d_.add(bf16_.read(l_.y, row * s.n + col, 1)[0], sum * static_cast<double>(l_.gemm_scale));
    }
    return d_.relative();
  }

  double operator()(const Embedding& s) {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = below(s.rows);
      d_.add(bf16_.read(l_.y, row * s.cols, s.cols), bf16_.read(l_.weight, bf16_.index(l_.x, row) * s.cols, s.cols));
    }
    return d_.relative();
  }

  double operator()(const Rowwise& s) {
    for (int i = 0; i < 4; ++i) row(s, below(s.rows));
    return d_.relative();
  }

  double operator()(const Rope& s) {
    bound = kRopeBound;
    const std::int64_t width = s.head_dim, kv = (s.heads - l_.q_heads) / 2;
    const Values frequency = Reader(step_, DType::fp32).read(l_.frequency, 0, width / 2);
    const std::vector<float> turns(frequency.begin(), frequency.end());
    for (int i = 0; i < kSamples; ++i) {
      const std::int64_t token = below(s.tokens), head = below(s.heads);
      const Values x = bf16_.read(l_.x, (token * s.heads + head) * width, width);
      const bool query = head < l_.q_heads, value = head >= l_.q_heads + kv;
      const Rope one{1, 1, width, s.dtype};
      const Values want = value ? x : reference_rope(one, x, {bf16_.index(l_.positions, token)}, turns);
      const std::int64_t row = bf16_.index(l_.rows, token);
      if (query) d_.add(bf16_.read(l_.y, (token * l_.q_heads + head) * width, width), want);
      else if (value) d_.add(bf16_.read(l_.v, (row * kv + head - l_.q_heads - kv) * width, width), want);
      else d_.add(bf16_.read(l_.k, (row * kv + head - l_.q_heads) * width, width), want);
    }
    return d_.relative();
  }

  double operator()(const AttentionPrefill& s) {
    for (int i = 0; i < 3; ++i) {
      const std::int64_t sequence = below(s.batch), query = below(s.q_len), head = below(s.q_heads);
      std::vector<std::int64_t> rows;
      for (std::int64_t j = 0; j < (s.causal ? query + 1 : s.kv_len); ++j) rows.push_back(sequence * s.kv_len + j);
      attend(rows, ((sequence * s.q_len + query) * s.q_heads + head) * s.qk_dim, head / (s.q_heads / s.kv_heads),
             s.kv_heads, s.qk_dim);
    }
    return d_.relative();
  }

  double operator()(const AttentionDecode& s) {
    const std::int64_t width = s.page > 0 ? (s.context + s.page - 1) / s.page : 0;
    for (int i = 0; i < 3; ++i) {
      const std::int64_t sequence = below(s.batch), head = below(s.q_heads);
      std::vector<std::int64_t> rows;
      for (std::int64_t j = 0; j < s.context; ++j) {
        rows.push_back(s.page > 0 ? bf16_.index(l_.table, sequence * width + j / s.page) * s.page + j % s.page
                                  : sequence * s.context + j);
      }
      attend(rows, (sequence * s.q_heads + head) * s.qk_dim, head / (s.q_heads / s.kv_heads), s.kv_heads, s.qk_dim);
    }
    return d_.relative();
  }

  template <class Other>
  double operator()(const Other&) {
    return 0;
  }

 private:
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  void row(const Rowwise& s, std::int64_t at) {
    if (l_.x.buffer == l_.y.buffer) return d_.add(1, 1);  // in place: its input is gone
    RowwiseInputs in;
    const std::int64_t wide = s.kind == RowwiseKind::swiglu ? 2 * s.cols : s.cols;
    in.x = bf16_.read(l_.x, at * wide, wide);
    if (s.residual) in.second = bf16_.read(l_.second, at * s.cols, s.cols);
    if (l_.weight.there()) in.weight = bf16_.read(l_.weight, 0, s.cols);
    if (l_.bias.there()) in.bias = bf16_.read(l_.bias, 0, s.cols);
    Rowwise one = s;
    one.rows = 1;
    const RowwiseResult want = reference_rowwise(one, in);
    if (s.kind == RowwiseKind::argmax) {
      const auto chosen = static_cast<std::size_t>(bf16_.index(l_.y, at));
      return d_.add(chosen < in.x.size() ? in.x[chosen] : INFINITY, in.x[static_cast<std::size_t>(want.y[0])]);
    }
    if (s.kind == RowwiseKind::quantize) {
      bound = 0.07;  // half a unit in the last place of e4m3 is 0.0625
      const double scale = Reader(step_, DType::fp32).read(l_.scale, at, 1)[0];
      Values got = Reader(step_, DType::fp8).read(l_.y, at * s.cols, s.cols);
      for (double& v : got) v *= scale;
      return d_.add(got, in.x);
    }
    d_.add(bf16_.read(l_.y, at * s.cols, s.cols), want.y);
    if (s.residual) d_.add(bf16_.read(l_.sum, at * s.cols, s.cols), want.sum);
  }

  /// softmax(q k / sqrt(D)) v over these rows of the cache, for the query at this element.
  void attend(const std::vector<std::int64_t>& rows, std::int64_t query_at, std::int64_t kv_head, std::int64_t kv_heads,
              std::int64_t width) {
    const auto d = static_cast<std::size_t>(width);
    const Values q = bf16_.read(l_.x, query_at, width);
    std::vector<double> scores;
    for (const std::int64_t r : rows) {
      const Values k = bf16_.read(l_.k, (r * kv_heads + kv_head) * width, width);
      double score = 0;
      for (std::size_t i = 0; i < d; ++i) score += q[i] * k[i];
      scores.push_back(score / std::sqrt(static_cast<double>(width)));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    Values out(d);
    for (std::size_t j = 0; j < rows.size(); ++j) {
      const Values v = bf16_.read(l_.v, (rows[j] * kv_heads + kv_head) * width, width);
      const double p = std::exp(scores[j] - largest);
      sum += p;
      for (std::size_t i = 0; i < d; ++i) out[i] += p * v[i];
    }
    for (double& v : out) v /= sum;
    d_.add(bf16_.read(l_.y, query_at, width), out);
  }

  const LoadedStep& step_;
  const StepLaunch& l_;
  Reader bf16_;
  Difference d_;
  std::minstd_rand random_{7};
};

}  // namespace

std::vector<StepOpCheck> check_step(const LoadedStep& step, const StepPrediction& priced, StreamHandle stream) {
  std::vector<StepOpCheck> out;
  for (const StepLaunch& launch : step.program().launches) {
    step.enqueue(launch, stream);
    PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
    const Node& node = priced.graph.nodes[static_cast<std::size_t>(launch.node)];
    const std::int64_t last = priced.graph.segments[static_cast<std::size_t>(node.segment)].repeat - 1;
    if (launch.layer != 0 && launch.layer != last) continue;
    Checker checker(step, launch);
    StepOpCheck& check = out.emplace_back();
    check.name = node.name;
    check.layer = launch.layer;
    check.error = std::visit([&](const auto& shape) { return checker(shape); }, launch.op);
    check.bound = checker.bound;
  }
  return out;
}

}  // namespace plumbline
