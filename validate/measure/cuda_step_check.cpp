#include "validate/measure/cuda_step_check.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/launch.hpp"
#include "kernels/reference/reference.hpp"
#include "validate/measure/cuda_step_joint.hpp"

namespace plumbline {
namespace {

constexpr double kBf16Bound = 0.02;  // half a unit in the last place is 0.004; attention rounds its weights too
constexpr double kFp16Bound = kBf16Bound / 8;
constexpr double kRopeBound = 0.05;  // angles of thousands of radians in fp32

/// One operator that has just run.
class Checker {
 public:
  Checker(const LoadedStep& step, const StepLaunch& launch)
      : bound(step.program().type == DType::fp16 ? kFp16Bound : kBf16Bound), step_(step), l_(launch), values_(step) {}

  double bound;

  double operator()(const Gemm& s) {
    const Reader in(step_, s.precision.input);
    for (int i = 0; i < kSamples; ++i) {
      const std::int64_t row = below(s.m), col = below(s.n);
      const Values x = in.read(l_.x, row * s.k, s.k), w = in.read(l_.weight, col * s.k, s.k);
      double sum = 0;
      for (std::size_t k = 0; k < x.size(); ++k) sum += x[k] * w[k];
      d_.add(values_.read(l_.y, row * s.n + col, 1)[0], sum * static_cast<double>(l_.gemm_scale));
    }
    return d_.relative();
  }

  double operator()(const Embedding& s) {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = below(s.rows);
      d_.add(values_.read(l_.y, row * s.cols, s.cols),
             values_.read(l_.weight, values_.index(l_.x, row) * s.cols, s.cols));
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
      const Values x = values_.read(l_.x, (token * s.heads + head) * width, width);
      const bool query = head < l_.q_heads, value = head >= l_.q_heads + kv;
      const Rope one{1, 1, width, s.dtype};
      const Values want = value ? x : reference_rope(one, x, {values_.index(l_.positions, token)}, turns);
      const std::int64_t row = values_.index(l_.rows, token);
      if (query) d_.add(values_.read(l_.y, (token * l_.q_heads + head) * width, width), want);
      else if (value) d_.add(values_.read(l_.v, (row * kv + head - l_.q_heads - kv) * width, width), want);
      else d_.add(values_.read(l_.k, (row * kv + head - l_.q_heads) * width, width), want);
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
        rows.push_back(s.page > 0 ? values_.index(l_.table, sequence * width + j / s.page) * s.page + j % s.page
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
    in.x = values_.read(l_.x, at * wide, wide);
    if (s.residual) in.second = values_.read(l_.second, at * s.cols, s.cols);
    if (l_.weight.there()) in.weight = values_.read(l_.weight, 0, s.cols);
    if (l_.bias.there()) in.bias = values_.read(l_.bias, 0, s.cols);
    Rowwise one = s;
    one.rows = 1;
    const RowwiseResult want = reference_rowwise(one, in);
    if (s.kind == RowwiseKind::argmax) {
      const auto chosen = static_cast<std::size_t>(values_.index(l_.y, at));
      return d_.add(chosen < in.x.size() ? in.x[chosen] : INFINITY, in.x[static_cast<std::size_t>(want.y[0])]);
    }
    if (s.kind == RowwiseKind::quantize) {
      bound = 0.07;  // half a unit in the last place of e4m3 is 0.0625
      const double scale = Reader(step_, DType::fp32).read(l_.scale, at, 1)[0];
      Values got = Reader(step_, DType::fp8).read(l_.y, at * s.cols, s.cols);
      for (double& v : got) v *= scale;
      return d_.add(got, in.x);
    }
    d_.add(values_.read(l_.y, at * s.cols, s.cols), want.y);
    if (s.residual) d_.add(values_.read(l_.sum, at * s.cols, s.cols), want.sum);
  }

  /// softmax(q k / sqrt(D)) v over these rows of the cache, for the query at this element.
  void attend(const std::vector<std::int64_t>& rows, std::int64_t query_at, std::int64_t kv_head, std::int64_t kv_heads,
              std::int64_t width) {
    const auto d = static_cast<std::size_t>(width);
    const Values q = values_.read(l_.x, query_at, width);
    std::vector<double> scores;
    for (const std::int64_t r : rows) {
      const Values k = values_.read(l_.k, (r * kv_heads + kv_head) * width, width);
      double score = 0;
      for (std::size_t i = 0; i < d; ++i) score += q[i] * k[i];
      scores.push_back(score / std::sqrt(static_cast<double>(width)));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    Values out(d);
    for (std::size_t j = 0; j < rows.size(); ++j) {
      const Values v = values_.read(l_.v, (rows[j] * kv_heads + kv_head) * width, width);
      const double p = std::exp(scores[j] - largest);
      sum += p;
      for (std::size_t i = 0; i < d; ++i) out[i] += p * v[i];
    }
    for (double& v : out) v /= sum;
    d_.add(values_.read(l_.y, query_at, width), out);
  }

  const LoadedStep& step_;
  const StepLaunch& l_;
  Reader values_;
  Difference d_;
  std::minstd_rand random_{7};
};

/// The worst of all ranks.
StepOpCheck check_launch(StepRanks& ranks, std::size_t at, std::optional<JointCheck>& sum) {
  StepOpCheck check;
  check.bound = kBf16Bound;
  if (sum) {
    check.error = sum->worst();
    return check;
  }
  for (std::size_t r = 0; r < ranks.count(); ++r) {
    const LoadedStep& step = *ranks.card(r).loaded;
    Checker checker(step, step.program().launches[at]);
    check.error = std::max(
        check.error, std::visit([&](const auto& shape) { return checker(shape); }, step.program().launches[at].op));
    check.bound = checker.bound;
  }
  return check;
}

}  // namespace

std::vector<StepOpCheck> check_step(StepRanks& ranks, const StepPrediction& priced) {
  std::vector<StepOpCheck> out;
  const std::vector<StepLaunch>& launches = ranks.program().launches;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Node& node = priced.graph.nodes[static_cast<std::size_t>(launches[i].node)];
    const std::int64_t last = priced.graph.segments[static_cast<std::size_t>(node.segment)].repeat - 1;
    const bool compared = launches[i].layer == 0 || launches[i].layer == last;
    std::optional<JointCheck> sum;
    if (compared && std::holds_alternative<Collective>(launches[i].op)) sum.emplace(ranks, i);
    ranks.enqueue(launches[i]);
    ranks.wait();
    if (!compared) continue;
    ranks.need_no_fault();
    out.push_back(check_launch(ranks, i, sum));
    out.back().name = node.name;
    out.back().layer = launches[i].layer;
  }
  if (ranks.count() > 1) out.push_back(Replays(ranks).run());
  return out;
}

}  // namespace plumbline
