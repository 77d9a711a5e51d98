// Primitives, recurrent mixers and movement: the formula against an execution of the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/facts/work.hpp"
#include "tests/support/brute_force.hpp"

namespace plumbline::work_primitives_test {
namespace {

using brute::Array;
using brute::Machine;
using brute::Num;
using brute::OnTensorUnit;

TEST(WorkPrimitives, TopKEqualsExecution) {
  const TopK s{2, 7, 3, DType::bf16};
  Machine machine;
  Array& x = machine.array(14, 2);
  Array& values = machine.array(6, 2);
  Array& indices = machine.array(6, 4);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    std::vector<double> sorted;
    for (std::int64_t c = 0; c < s.cols; ++c) sorted.push_back(x.peek(r * s.cols + c));
    std::sort(sorted.rbegin(), sorted.rend());
    const double below = (sorted[2] + sorted[3]) / 2;  // an oracle's threshold
    std::int64_t found = 0;
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const Num v = x[r * s.cols + c];
      if (!(v > Num(below))) continue;
      values.set(r * s.k + found, v);
      indices.set(r * s.k + found++, Num(static_cast<double>(c)));
    }
    ASSERT_EQ(found, s.k);
  }
  EXPECT_SAME_WORK(s, machine);
}

TEST(WorkPrimitives, SoftmaxTopKEqualsExecution) {
  const SoftmaxTopK s{2, 7, 3, DType::bf16};
  Machine machine;
  Array& x = machine.array(14, 2);
  Array& values = machine.array(6, 2);
  Array& indices = machine.array(6, 4);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    std::vector<double> sorted;
    for (std::int64_t c = 0; c < s.cols; ++c) sorted.push_back(x.peek(r * s.cols + c));
    std::sort(sorted.rbegin(), sorted.rend());
    const double below = (sorted[2] + sorted[3]) / 2;  // an oracle's threshold
    std::vector<Num> row, powers;
    for (std::int64_t c = 0; c < s.cols; ++c) row.push_back(x[r * s.cols + c]);
    Num largest(-std::numeric_limits<double>::infinity()), sum(0);
    for (const Num& v : row) largest = max(largest, v);
    for (const Num& v : row) {
      powers.push_back(exp(v - largest));
      sum += powers.back();
    }
    const Num inverse = reciprocal(sum);
    std::int64_t found = 0;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (!(row[c] > Num(below))) continue;
      values.set(r * s.k + found, powers[c] * inverse);
      indices.set(r * s.k + found++, Num(static_cast<double>(c)));
    }
    ASSERT_EQ(found, s.k);
  }
  EXPECT_SAME_WORK(s, machine);
}

TEST(WorkPrimitives, EmbeddingEqualsExecution) {
  const Embedding s{3, 4, DType::fp16};
  Machine machine;
  Array& table = machine.array(10 * 4, 2);
  Array& ids = machine.array(3, 4);
  Array& out = machine.array(12, 2);
  for (std::int64_t r = 0; r < 3; ++r) ids.poke(r, static_cast<double>(r * 4 + 1));
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t c = 0; c < 4; ++c) out.set(r * 4 + c, table[ids.index(r) * 4 + c]);
  }
  EXPECT_SAME_WORK(s, machine);
}

/// Two of three rows meet in one of the table's: a table of one row takes all of them.
TEST(WorkPrimitives, EmbeddingBackwardEqualsExecution) {
  for (const bool one : {false, true}) {
    const EmbeddingBackward s{3, 4, one ? 1 : 0, DType::fp16};
    Machine machine;
    Array& table = machine.array(10 * 4, 4);
    Array& ids = machine.array(3, 4);
    Array& dy = machine.array(12, 2);
    for (std::int64_t r = 0; r < 3; ++r) ids.poke(r, one ? 0.0 : static_cast<double>(r * 4 + 1));
    for (std::int64_t r = 0; r < 3; ++r) {
      const std::int64_t to = ids.index(r) * 4;
      for (std::int64_t c = 0; c < 4; ++c) table.set(to + c, table[to + c] + dy[r * 4 + c]);
    }
    EXPECT_SAME_WORK(s, machine);
  }
}

/// Drawn evenly from a table: of 2 rows, 3 ids touch 2 (1 - 1/8) = 1.75 in the mean.
TEST(WorkPrimitives, RowsTouchedAreThoseThatAnyIdNames) {
  EXPECT_DOUBLE_EQ(rows_touched({3, 4, 2}), 1.75);
  EXPECT_DOUBLE_EQ(rows_touched({3, 4, 1}), 1);
  EXPECT_DOUBLE_EQ(rows_touched({3, 4, 0}), 3);
  EXPECT_NEAR(rows_touched({3, 4, 1000000000}), 3, 1e-8);
}

TEST(WorkPrimitives, NormOfAllEqualsExecution) {
  const Scan s{ScanKind::norm_all, 9, DType::fp32};
  Machine machine;
  Array& x = machine.array(9, 4);
  Array& y = machine.array(1, 4);
  Num sum(0);
  for (std::int64_t i = 0; i < 9; ++i) sum += x[i] * x[i];
  y.set(0, sqrt(sum));
  EXPECT_SAME_WORK(s, machine);
}

TEST(WorkPrimitives, ScansEqualExecution) {
  for (ScanKind kind : {ScanKind::sum_all, ScanKind::cumsum}) {
    const Scan s{kind, 9, DType::fp32};
    Machine machine;
    Array& x = machine.array(9, 4);
    Array& y = machine.array(kind == ScanKind::cumsum ? 9 : 1, 4);
    Num sum(0);
    for (std::int64_t i = 0; i < 9; ++i) {
      sum += x[i];
      if (kind == ScanKind::cumsum) y.set(i, sum);
    }
    if (kind == ScanKind::sum_all) y.set(0, sum);
    EXPECT_SAME_WORK(s, machine);
  }
}

/// Columns in turn, so that every column is used when there are enough nonzeros.
TEST(WorkPrimitives, SpmvEqualsExecution) {
  for (const auto& [rows, cols, nnz] : {std::array<std::int64_t, 3>{3, 4, 9}, {4, 6, 3}, {2, 2, 4}, {5, 1, 2}}) {
    const Spmv s{rows, cols, nnz, DType::fp32};
    Machine machine;
    Array& value = machine.array(nnz, 4);
    Array& column = machine.array(nnz, 4);
    Array& start = machine.array(rows + 1, 4);
    Array& x = machine.array(cols, 4);
    Array& y = machine.array(rows, 4);
    for (std::int64_t i = 0; i < nnz; ++i) column.poke(i, static_cast<double>(i % cols));
    for (std::int64_t r = 0; r <= rows; ++r) start.poke(r, static_cast<double>(nnz * r / rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      Num sum(0);
      for (std::int64_t i = start.index(r); i < start.index(r + 1); ++i) sum += value[i] * x[column.index(i)];
      y.set(r, sum);
    }
    EXPECT_SAME_WORK(s, machine);
  }
}

struct RecurrenceArrays {
  Array &x, &step, &b, &c, &a, &skip, &gate, &state, &y;
};

/// mamba1 and mamba2: h = exp(dt A) h + (dt x) b; y = h c + D x. Per channel or per head.
void mamba_step(const Recurrence& s, RecurrenceArrays& m, std::int64_t t, std::int64_t head, std::int64_t state0) {
  const bool per_channel = s.kind == RecurrentKind::mamba1;
  const std::int64_t shared = (t * s.groups + head / (s.heads / s.groups)) * s.state, th = t * s.heads + head;
  Num decay(0);
  if (!per_channel) decay = exp(m.step[th] * m.a[head]);
  for (std::int64_t p = 0; p < s.head_dim; ++p) {
    const std::int64_t channel = head * s.head_dim + p, tc = th * s.head_dim + p;
    const Num dt = m.step[per_channel ? tc : th], x = m.x[tc], dx = dt * x;
    Num y(0);
    for (std::int64_t n = 0; n < s.state; ++n) {
      if (per_channel) decay = exp(dt * m.a[channel * s.state + n]);
      const OnTensorUnit unit(s.seq > 1 && !per_channel);
      const std::int64_t at = state0 + p * s.state + n;
      const Num h = decay * m.state[at] + dx * m.b[shared + n];
      m.state.set(at, h);
      y += h * m.c[shared + n];
    }
    m.y.set(tc, y + m.skip[per_channel ? channel : head] * x);
  }
}

/// gated delta rule: b is k, c is q, step is beta.
void delta_step(const Recurrence& s, RecurrenceArrays& m, std::int64_t t, std::int64_t head, std::int64_t state0) {
  const std::int64_t shared = (t * s.groups + head / (s.heads / s.groups)) * s.state, th = t * s.heads + head;
  const Num alpha = exp(m.gate[th]), beta = m.step[th];
  for (std::int64_t p = 0; p < s.head_dim; ++p) {
    Num predicted(0), y(0);
    std::vector<Num> column;
    const bool matrix = s.seq > 1;
    for (std::int64_t n = 0; n < s.state; ++n) {
      const OnTensorUnit unit(matrix);
      column.push_back(alpha * m.state[state0 + p * s.state + n]);
      predicted += column.back() * m.b[shared + n];
    }
    const Num u = beta * (m.x[th * s.head_dim + p] - predicted);
    for (std::int64_t n = 0; n < s.state; ++n) {
      const OnTensorUnit unit(matrix);
      const Num h = column[static_cast<std::size_t>(n)] + m.b[shared + n] * u;
      m.state.set(state0 + p * s.state + n, h);
      y += h * m.c[shared + n];
    }
    m.y.set(th * s.head_dim + p, y);
  }
}

void run_recurrence(Machine& machine, const Recurrence& s) {
  const std::int64_t steps = s.batch * s.seq, channels = s.heads * s.head_dim;
  const bool mamba1 = s.kind == RecurrentKind::mamba1, delta = s.kind == RecurrentKind::gated_delta_net;
  RecurrenceArrays m{machine.array(steps * channels, 2),
                     machine.array(steps * (mamba1 ? channels : s.heads), 2),
                     machine.array(steps * s.groups * s.state, 2),
                     machine.array(steps * s.groups * s.state, 2),
                     machine.array(mamba1 ? channels * s.state : s.heads, 4),
                     machine.array(mamba1 ? channels : s.heads, 4),
                     machine.array(steps * s.heads, 2),
                     machine.array(s.batch * channels * s.state, 4),
                     machine.array(steps * channels, 2)};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = b * s.seq; t < (b + 1) * s.seq; ++t) {
        const std::int64_t state0 = (b * s.heads + h) * s.head_dim * s.state;
        if (delta) delta_step(s, m, t, h, state0);
        else mamba_step(s, m, t, h, state0);
      }
    }
  }
}

TEST(WorkPrimitives, RecurrencesEqualExecution) {
  for (RecurrentKind kind : {RecurrentKind::mamba1, RecurrentKind::mamba2, RecurrentKind::gated_delta_net}) {
    for (std::int64_t seq : {1, 2, 4}) {
      for (std::int64_t groups : {1, 2}) {
        const Recurrence s{kind, 2, seq, 4, 3, 5, groups, DType::bf16, DType::fp32};
        Machine machine;
        run_recurrence(machine, s);
        SCOPED_TRACE(testing::Message() << name(kind) << " S " << seq << " groups " << groups);
        EXPECT_SAME_WORK(s, machine);
      }
    }
  }
}

TEST(WorkPrimitives, CausalConvEqualsExecution) {
  for (std::int64_t seq : {1, 2, 6}) {
    for (std::int64_t width : {1, 4}) {
      const CausalConv s{2, seq, 3, width, DType::bf16};
      Machine machine;
      Array& x = machine.array(2 * 3 * seq, 2);
      Array& w = machine.array(3 * width, 2);
      Array& before = machine.array(2 * 3 * (width - 1), 2);
      Array& after = machine.array(2 * 3 * (width - 1), 2);
      Array& y = machine.array(2 * 3 * seq, 2);
      for (std::int64_t lane = 0; lane < 6; ++lane) {
        const auto input = [&](std::int64_t t) {
          return t < 0 ? before[lane * (width - 1) + t + width - 1] : x[lane * seq + t];
        };
        for (std::int64_t t = 0; t < seq; ++t) {
          Num sum(0);
          for (std::int64_t i = 0; i < width; ++i) sum += w[lane % 3 * width + i] * input(t - width + 1 + i);
          y.set(lane * seq + t, sum);
        }
        for (std::int64_t i = 0; i < width - 1; ++i) after.set(lane * (width - 1) + i, input(seq - width + 1 + i));
      }
      EXPECT_SAME_WORK(s, machine);
    }
  }
}

TEST(WorkPrimitives, MoePermuteEqualsExecution) {
  for (bool combine : {false, true}) {
    const MoePermute s{3, 2, 4, combine, DType::bf16};
    Machine machine;
    Array& few = machine.array(3 * 4, 2);
    Array& many = machine.array(6 * 4, 2);
    Array& slot = machine.array(6, 4);
    Array& weight = machine.array(6, 4);
    for (std::int64_t r = 0; r < 6; ++r) slot.poke(r, static_cast<double>(r * 5 % 6));
    for (std::int64_t t = 0; t < 3; ++t) {
      for (std::int64_t c = 0; c < 4; ++c) {
        Num sum(0);
        for (std::int64_t r = t * 2; r < t * 2 + 2; ++r) {
          const std::int64_t at = slot.index(r) * 4 + c;
          if (combine) sum += weight[r] * many[at];
          else many.set(at, few[t * 4 + c]);
        }
        if (combine) few.set(t * 4 + c, sum);
      }
    }
    EXPECT_SAME_WORK(s, machine);
  }
}

/// n ranks in a ring, each with a buffer of n equal chunks of bf16, executed hop by hop.
class Ring {
 public:
  Ring(std::int64_t n, std::int64_t elements) : n_(n), chunk_(elements / n) {
    for (std::int64_t r = 0; r < n; ++r)
      ranks_.emplace_back(static_cast<std::size_t>(elements), Num(static_cast<double>(r + 1)));
  }
  void reduce_scatter() { pass(true); }
  void all_gather() { pass(false); }
  double sent_by_one() const { return 2.0 * sent_ / static_cast<double>(n_); }
  double adds_of_one() const { return machine_.counts().fp32 / static_cast<double>(n_); }
  const Num& at(std::int64_t rank, std::int64_t i) const {
    return ranks_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)];
  }

 private:
  void pass(bool reduce) {
    for (std::int64_t hop = 0; hop < n_ - 1; ++hop) {
      const auto before = ranks_;  // all ranks send at once
      for (std::int64_t r = 0; r < n_; ++r) {
        const std::int64_t chunk = (r - hop + (reduce ? 0 : 1) + 2 * n_) % n_, to = (r + 1) % n_;
        for (std::int64_t i = chunk * chunk_; i < (chunk + 1) * chunk_; ++i) {
          const Num value = before[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)];
          Num& there = ranks_[static_cast<std::size_t>(to)][static_cast<std::size_t>(i)];
          there = reduce ? there + value : value;
          sent_ += 1;
        }
      }
    }
  }
  Machine machine_;
  std::int64_t n_, chunk_;
  std::vector<std::vector<Num>> ranks_;
  double sent_ = 0;
};

TEST(WorkPrimitives, CollectivesSendWhatARingSends) {
  for (std::int64_t n : {1, 2, 3, 8}) {
    const std::int64_t elements = 24, bytes = 2 * elements;
    Ring gather(n, elements);
    gather.all_gather();
    const double gathered = gather.sent_by_one();
    Ring ring(n, elements);
    ring.reduce_scatter();
    const double scattered = ring.sent_by_one(), adds = ring.adds_of_one();
    ring.all_gather();
    const double reduced = ring.sent_by_one();
    for (std::int64_t i = 0; i < n * elements; ++i) {  // it is an all-reduce
      EXPECT_EQ(ring.at(i / elements, i % elements).value(), static_cast<double>(n * (n + 1) / 2));
    }
    const auto expect = [&](CollectiveKind kind, double sent, double added, double read, double write) {
      const Work w = work(Collective{kind, bytes, n, DType::bf16});
      EXPECT_DOUBLE_EQ(w.link.in(units::B), sent) << name(kind);
      EXPECT_DOUBLE_EQ(w.fp32.in(units::FLOP), added) << name(kind);
      EXPECT_DOUBLE_EQ(w.read.in(units::B), read) << name(kind);
      EXPECT_DOUBLE_EQ(w.write.in(units::B), write) << name(kind);
    };
    const double whole = static_cast<double>(bytes), part = static_cast<double>(bytes / n);
    expect(CollectiveKind::all_reduce, reduced, adds, whole, whole);
    expect(CollectiveKind::reduce_scatter, scattered, adds, whole, part);
    expect(CollectiveKind::all_gather, gathered, 0, part, whole);
    expect(CollectiveKind::all_to_all, gathered, 0, whole, whole);
  }
}

TEST(WorkPrimitives, TransfersTouchTheMemoryOfThisDevice) {
  const auto expect = [](TransferKind kind, double read, double write, double link) {
    const Work w = work(Transfer{kind, 1000});
    EXPECT_EQ(w.read.in(units::B), read) << name(kind);
    EXPECT_EQ(w.write.in(units::B), write) << name(kind);
    EXPECT_EQ(w.link.in(units::B), link) << name(kind);
  };
  expect(TransferKind::send_recv, 1000, 1000, 1000);
  expect(TransferKind::h2d, 0, 1000, 1000);
  expect(TransferKind::d2h, 1000, 0, 1000);
  expect(TransferKind::d2d, 1000, 1000, 0);
  expect(TransferKind::p2p_copy, 1000, 1000, 1000);
}

}  // namespace
}  // namespace plumbline::work_primitives_test
