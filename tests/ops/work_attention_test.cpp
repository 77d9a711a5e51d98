// Attention: the formula against an execution of the definition.
#include <gtest/gtest.h>

#include <limits>

#include "ops/facts/work.hpp"
#include "tests/support/brute_force.hpp"

namespace plumbline::work_attention_test {
namespace {

using brute::Array;
using brute::Machine;
using brute::Num;
using brute::OnTensorUnit;
using Keys = std::vector<std::int64_t>;

/// Softmax attention of one query over the keys listed: `q`, `k`, `v` give one element, `o` takes one.
template <class Q, class K, class V, class O>
void attend(const Keys& keys, std::int64_t qk_dim, std::int64_t v_dim, Q q, K k, V v, O o) {
  const Num scale(1 / std::sqrt(static_cast<double>(qk_dim)));
  std::vector<Num> score;
  Num largest(-std::numeric_limits<double>::infinity()), sum(0);
  for (std::int64_t key : keys) {
    Num dot(0);
    {
      const OnTensorUnit unit;
      for (std::int64_t i = 0; i < qk_dim; ++i) dot += q(i) * k(key, i);
    }
    score.push_back(dot * scale);
    largest = max(largest, score.back());
  }
  for (Num& s : score) {
    s = exp(s - largest);
    sum += s;
  }
  const Num inverse = reciprocal(sum);
  for (std::int64_t i = 0; i < v_dim; ++i) {
    Num out(0);
    {
      const OnTensorUnit unit;
      for (std::size_t j = 0; j < keys.size(); ++j) out += score[j] * v(keys[j], i);
    }
    o(i, out * inverse);
  }
}

/// The mask by its words: causal query i sees 0 .. Skv-S+i; a window keeps the last `window` of those.
Keys seen_by(const AttentionPrefill& s, std::int64_t query) {
  Keys keys;
  for (std::int64_t key = 0; key < s.kv_len; ++key) {
    if (!s.causal || key <= s.kv_len - s.q_len + query) keys.push_back(key);
  }
  while (s.window > 0 && static_cast<std::int64_t>(keys.size()) > s.window) keys.erase(keys.begin());
  return keys;
}

struct Bytes3 {
  double q, kv, out;
};

/// Rotates one head's row in place: pairs (i, i + D/2) by the token's sines and cosines.
void rotate(std::vector<Num>& row, const std::vector<Num>& sine, const std::vector<Num>& cosine) {
  const std::size_t half = row.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const Num x = row[i], y = row[i + half];
    row[i] = x * cosine[i] - y * sine[i];
    row[i + half] = y * cosine[i] + x * sine[i];
  }
}

/// Everything one sequence keeps on chip when the launch appends: the rotated Q and the new K, V.
class Appender {
 public:
  Appender(Machine& machine, const AttentionPrefill& s, Bytes3 bytes, Array& past_k, Array& past_v)
      : s_(s),
        past_k_(past_k),
        past_v_(past_v),
        frequency_(machine.array(s.qk_dim / 2, 4)),
        new_k_(machine.array(s.batch * s.q_len * s.kv_heads * s.qk_dim, bytes.q)),
        new_v_(machine.array(s.batch * s.q_len * s.kv_heads * s.v_dim, bytes.q)) {}

  /// Rotates this token's query rows (of all heads) and puts its key and value rows into the cache.
  void token(std::int64_t b, std::int64_t i, std::vector<std::vector<Num>>& q_rows) {
    std::vector<Num> sine, cosine;
    for (std::int64_t f = 0; f < s_.qk_dim / 2; ++f) {
      const Num angle = Num(static_cast<double>(s_.kv_len - s_.q_len + i)) * frequency_[f];
      sine.push_back(sin(angle));
      cosine.push_back(cos(angle));
    }
    for (auto& row : q_rows) rotate(row, sine, cosine);
    const std::int64_t slot = s_.kv_len - s_.q_len + i;
    for (std::int64_t h = 0; h < s_.kv_heads; ++h) {
      const std::int64_t from = (b * s_.q_len + i) * s_.kv_heads + h, to = (b * s_.kv_heads + h) * s_.kv_len + slot;
      std::vector<Num> row;
      for (std::int64_t j = 0; j < s_.qk_dim; ++j) row.push_back(new_k_[from * s_.qk_dim + j]);
      rotate(row, sine, cosine);
      for (std::int64_t j = 0; j < s_.qk_dim; ++j) past_k_.set(to * s_.qk_dim + j, row[static_cast<std::size_t>(j)]);
      for (std::int64_t j = 0; j < s_.v_dim; ++j) past_v_.set(to * s_.v_dim + j, new_v_[from * s_.v_dim + j]);
    }
  }

 private:
  const AttentionPrefill& s_;
  Array &past_k_, &past_v_, &frequency_, &new_k_, &new_v_;
};

double run_prefill(Machine& machine, const AttentionPrefill& s, Bytes3 bytes) {
  Array& q = machine.array(s.batch * s.q_heads * s.q_len * s.qk_dim, bytes.q);
  Array& k = machine.array(s.batch * s.kv_heads * s.kv_len * s.qk_dim, bytes.kv);
  Array& v = machine.array(s.batch * s.kv_heads * s.kv_len * s.v_dim, bytes.kv);
  Array& o = machine.array(s.batch * s.q_heads * s.q_len * s.v_dim, bytes.out);
  Appender appender(machine, s, bytes, k, v);
  double pairs = 0;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    std::vector<std::vector<std::vector<Num>>> queries;  // token, head, element
    for (std::int64_t i = 0; i < s.q_len; ++i) {
      auto& rows = queries.emplace_back();
      for (std::int64_t h = 0; h < s.q_heads; ++h) {
        auto& row = rows.emplace_back();
        for (std::int64_t j = 0; j < s.qk_dim; ++j) {
          row.push_back(q[((b * s.q_heads + h) * s.q_len + i) * s.qk_dim + j]);
        }
      }
      if (s.append == 1) appender.token(b, i, rows);
    }
    for (std::int64_t h = 0; h < s.q_heads; ++h) {
      const std::int64_t kv = (b * s.kv_heads + h / (s.q_heads / s.kv_heads)) * s.kv_len;
      for (std::int64_t i = 0; i < s.q_len; ++i) {
        const auto& row = queries[static_cast<std::size_t>(i)][static_cast<std::size_t>(h)];
        const std::int64_t out = ((b * s.q_heads + h) * s.q_len + i) * s.v_dim;
        const Keys keys = seen_by(s, i);
        pairs += static_cast<double>(keys.size());
        attend(
            keys, s.qk_dim, s.v_dim, [&](std::int64_t j) { return row[static_cast<std::size_t>(j)]; },
            [&](std::int64_t key, std::int64_t j) { return k[(kv + key) * s.qk_dim + j]; },
            [&](std::int64_t key, std::int64_t j) { return v[(kv + key) * s.v_dim + j]; },
            [&](std::int64_t j, Num value) { o.set(out + j, value); });
      }
    }
  }
  return pairs;
}

TEST(WorkAttention, PrefillEqualsExecution) {
  for (std::int64_t kv_len : {4, 5, 9}) {
    for (std::int64_t q_len : {1, 3, 4}) {
      for (std::int64_t window : {0, 1, 2, 4, 7, 100}) {
        for (bool causal : {false, true}) {
          for (int append : {-1, 0, 1}) {
            const AttentionPrefill s{2, 4, 2, 4, 6, q_len, kv_len, causal, window, append, DType::bf16, DType::bf16};
            Machine machine;
            const double pairs = run_prefill(machine, s, {2, 2, 2});
            SCOPED_TRACE(testing::Message() << "Skv " << kv_len << " S " << q_len << " window " << window << " causal "
                                            << causal << " append " << append);
            EXPECT_SAME_WORK(s, machine);
            EXPECT_DOUBLE_EQ(visible_pairs(s) * 2 * 4, pairs);
          }
        }
      }
    }
  }
}

TEST(WorkAttention, PrefillTypesTakeTheirOwnBytes) {
  for (int append : {0, 1}) {
    AttentionPrefill s{1, 2, 1, 4, 4, 3, 6, true, 0, append, DType::bf16, DType::fp8};
    Machine small_cache;
    run_prefill(small_cache, s, {2, 1, 2});
    EXPECT_SAME_WORK(s, small_cache);
    s.dtype = DType::fp8;  // answers in bf16
    Machine narrow;
    run_prefill(narrow, s, {1, 1, 2});
    EXPECT_SAME_WORK(s, narrow);
  }
}

/// The execution is attention: with V all ones, every output is one.
TEST(WorkAttention, ExecutionAveragesValues) {
  Machine machine;
  Array& q = machine.array(8, 2);
  Array& k = machine.array(40, 2);
  attend(
      {0, 2, 4}, 8, 1, [&](std::int64_t j) { return q[j]; },
      [&](std::int64_t key, std::int64_t j) { return k[key * 8 + j]; },
      [](std::int64_t, std::int64_t) { return Num(1); },
      [](std::int64_t, Num value) { EXPECT_NEAR(value.value(), 1, 1e-12); });
}

/// The cache lies in pages found through a table, last page first.
void run_decode(Machine& machine, const AttentionDecode& s) {
  const std::int64_t page = s.page > 0 ? s.page : s.context, pages = (s.context + page - 1) / page;
  Array& q = machine.array(s.batch * s.q_heads * s.qk_dim, 2);
  Array& k = machine.array(s.batch * pages * page * s.kv_heads * s.qk_dim, 2);
  Array& v = machine.array(s.batch * pages * page * s.kv_heads * s.v_dim, 2);
  Array& o = machine.array(s.batch * s.q_heads * s.v_dim, 2);
  Array& table = machine.array(s.page > 0 ? s.batch * pages : 0, 4);
  for (std::int64_t i = 0; s.page > 0 && i < s.batch * pages; ++i) {
    table.poke(i, static_cast<double>(s.batch * pages - 1 - i));
  }
  Keys keys;
  for (std::int64_t key = 0; key < s.context; ++key) {
    if (s.window == 0 || key >= s.context - s.window) keys.push_back(key);
  }
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.q_heads; ++h) {
      const auto row = [&](std::int64_t key) {
        const std::int64_t where = s.page > 0 ? table.index(b * pages + key / page) : b;
        return (where * page + key % page) * s.kv_heads + h / (s.q_heads / s.kv_heads);
      };
      attend(
          keys, s.qk_dim, s.v_dim, [&](std::int64_t j) { return q[(b * s.q_heads + h) * s.qk_dim + j]; },
          [&](std::int64_t key, std::int64_t j) { return k[row(key) * s.qk_dim + j]; },
          [&](std::int64_t key, std::int64_t j) { return v[row(key) * s.v_dim + j]; },
          [&](std::int64_t j, Num value) { o.set((b * s.q_heads + h) * s.v_dim + j, value); });
    }
  }
}

TEST(WorkAttention, DecodeEqualsExecution) {
  for (std::int64_t context : {1, 4, 7, 8, 9}) {
    for (std::int64_t page : {0, 1, 4, 16}) {
      for (std::int64_t window : {0, 1, 3, 4, 5, 20}) {
        const AttentionDecode s{2, 4, 2, 3, 5, context, page, window, DType::fp16, DType::fp16};
        Machine machine;
        run_decode(machine, s);
        SCOPED_TRACE(testing::Message() << "S " << context << " page " << page << " window " << window);
        EXPECT_SAME_WORK(s, machine);
      }
    }
  }
}

/// Keys are the whole latent, values its first Dc elements.
TEST(WorkAttention, MlaDecodeEqualsExecution) {
  for (std::int64_t context : {1, 6}) {
    for (std::int64_t heads : {1, 3}) {
      const MlaDecode s{2, heads, context, 5, 2, DType::bf16, DType::fp8};
      Machine machine;
      Array& q = machine.array(2 * heads * 7, 2);
      Array& cache = machine.array(2 * context * 7, 1);
      Array& o = machine.array(2 * heads * 5, 2);
      Keys keys;
      for (std::int64_t key = 0; key < context; ++key) keys.push_back(key);
      for (std::int64_t r = 0; r < 2 * heads; ++r) {
        const auto at = [&](std::int64_t key, std::int64_t j) { return cache[(r / heads * context + key) * 7 + j]; };
        attend(
            keys, 7, 5, [&](std::int64_t j) { return q[r * 7 + j]; }, at, at,
            [&](std::int64_t j, Num value) { o.set(r * 5 + j, value); });
      }
      EXPECT_SAME_WORK(s, machine);
    }
  }
}

}  // namespace
}  // namespace plumbline::work_attention_test
