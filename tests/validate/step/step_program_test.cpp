#include "validate/step/step_program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "tests/support/workloads.hpp"
#include "validate/record/step.hpp"

namespace plumbline::step_program_test {
namespace {

using plumbline::testing_support::prefill;
using ::testing::HasSubstr;

std::size_t no_gemm_scratch(const Gemm&, const GemmPlan&) { return 0; }
std::size_t small_decode_scratch(const AttentionDecode&, const AttentionPlan&) { return 1000; }
constexpr StepScratch kScratch{&no_gemm_scratch, &small_decode_scratch};

StepPrediction lowered(const std::string& model, const Workload& workload) {
  StepPrediction step;
  step.graph = lower(load_llm(model), workload);
  step.nodes.resize(step.graph.nodes.size());
  for (std::size_t i = 0; i < step.nodes.size(); ++i) step.nodes[i].node = &step.graph.nodes[i];
  return step;
}

Workload decode(std::int64_t batch, std::int64_t context, std::int64_t page) {
  Workload w = plumbline::testing_support::decode(batch, context);
  w.page = page;
  return w;
}

StepProgram program(const std::string& model, const Workload& w) {
  const StepPrediction step = lowered(model, w);
  return step_program(step, w, kScratch);
}

std::string refusal(const std::string& model, const Workload& w) {
  try {
    program(model, w);
  } catch (const NotModelled& error) {
    return error.what();
  }
  return "";
}

const StepBuffer& buffer(const StepProgram& p, const StepOperand& operand) {
  return p.buffers.at(static_cast<std::size_t>(operand.buffer));
}

TEST(StepProgram, RunsEveryOperatorOfEveryLayerInOrder) {
  const Workload w = decode(2, 300, 64);
  const StepPrediction step = lowered("llama-3.1-8b", w);
  const StepProgram p = step_program(step, w, kScratch);
  std::int64_t executions = 0;
  for (const Node& node : step.graph.nodes) executions += node.count;
  EXPECT_EQ(static_cast<std::int64_t>(p.launches.size()), executions);
  EXPECT_EQ(p.launches.front().node, 0);
  EXPECT_EQ(p.launches.back().node, static_cast<int>(step.graph.nodes.size()) - 1);
  for (std::size_t i = 1; i < p.launches.size(); ++i) {
    const StepLaunch &before = p.launches[i - 1], &now = p.launches[i];
    EXPECT_TRUE(now.node == before.node + 1 || (now.layer == before.layer + 1 && now.node <= before.node)) << i;
  }
}

TEST(StepProgram, ConsumersReadWhatProducersWrote) {
  for (const Workload& w : {decode(3, 100, 16), prefill(2, 40)}) {
    const StepProgram p = program("llama-3.1-8b", w);
    for (std::size_t i = 1; i < p.launches.size(); ++i) {
      EXPECT_EQ(p.launches[i].x.buffer, p.launches[i - 1].y.buffer) << p.launches[i].node << " " << p.launches[i].layer;
    }
  }
}

TEST(StepProgram, TheResidualStreamPassesThroughEveryAdd) {
  const StepProgram p = program("llama-3.1-8b", decode(1, 10, 0));
  StepOperand stream;
  int adds = 0;
  for (const StepLaunch& l : p.launches) {
    if (!l.sum.there()) continue;
    ++adds;
    EXPECT_NE(l.sum.buffer, l.second.buffer);
    if (stream.there()) {
      EXPECT_EQ(l.second.buffer, stream.buffer);
    } else {
      EXPECT_EQ(buffer(p, l.second).fill, StepFill::zeros);
    }
    stream = l.sum;
  }
  EXPECT_EQ(adds, 64);
}

TEST(StepProgram, HoldsTheWholeModelAndItsCache) {
  const std::int64_t batch = 4, context = 999, page = 64;
  const StepProgram p = program("llama-3.1-8b", decode(batch, context, page));
  std::size_t weights = 0, cache = 0;
  for (const StepBuffer& b : p.buffers) {
    if (b.fill != StepFill::normal) continue;
    (b.name.find("keys") != std::string::npos || b.name.find("values") != std::string::npos ? cache : weights) +=
        b.bytes;
  }
  EXPECT_EQ(weights, std::size_t{8030261248} * 2);  // as the model is published
  const std::size_t pages = 4 * 16;                 // 1000 tokens
  EXPECT_EQ(cache, pages * 64 * 8 * 128 * 2 * 2 * 32);
}

TEST(StepProgram, BuffersLieBesideEachOther) {
  const StepProgram p = program("llama-3.2-1b", decode(2, 100, 64));
  std::size_t end = 0;
  for (const StepBuffer& b : p.buffers) {
    EXPECT_EQ(b.offset % 256, 0U);
    EXPECT_GE(b.offset, end);
    end = b.offset + b.bytes;
  }
  EXPECT_GE(p.bytes, end);
  for (const StepLaunch& l : p.launches) {
    for (const StepOperand* o : {&l.x, &l.weight, &l.y, &l.k, &l.v, &l.workspace}) {
      if (o->there()) {
        EXPECT_LT(o->offset, buffer(p, *o).bytes);
      }
    }
  }
}

TEST(StepProgram, NewTokensGoToTheLastPlaceOfTheirOwnSequence) {
  const StepProgram p = program("llama-3.2-1b", decode(5, 100, 16));
  const auto rope =
      std::find_if(p.launches.begin(), p.launches.end(), [](const StepLaunch& l) { return l.rows.there(); });
  const auto attention =
      std::find_if(p.launches.begin(), p.launches.end(), [](const StepLaunch& l) { return l.table.there(); });
  ASSERT_NE(rope, p.launches.end());
  ASSERT_NE(attention, p.launches.end());
  const std::vector<std::int32_t>&rows = buffer(p, rope->rows).integers, &table = buffer(p, attention->table).integers;
  ASSERT_EQ(rows.size(), 5U);
  ASSERT_EQ(table.size(), 5U * 7);  // 101 tokens
  EXPECT_EQ(std::set<std::int32_t>(table.begin(), table.end()).size(), table.size());
  for (std::size_t s = 0; s < 5; ++s) {
    EXPECT_EQ(rows[s], table[s * 7 + 6] * 16 + 100 % 16);
    EXPECT_EQ(buffer(p, rope->positions).integers[s], 100);
  }
  EXPECT_EQ(attention->k.buffer, rope->k.buffer);
  EXPECT_EQ(attention->v.buffer, rope->v.buffer);
}

/// A rank of `ranks`.
StepProgram shared_program(const std::string& model, Workload w, std::int64_t ranks, std::int64_t rank) {
  w.parallel.tensor = ranks;
  const StepPrediction step = lowered(model, w);
  return step_program(step, w, kScratch, rank);
}

std::size_t weights_of(const StepProgram& p, bool replicated) {
  std::size_t bytes = 0;
  for (const StepBuffer& b : p.buffers) {
    const bool cache = b.name.find("keys") != std::string::npos || b.name.find("values") != std::string::npos;
    if (b.fill == StepFill::normal && !cache && b.replicated == replicated) bytes += b.bytes - b.zeros_behind;
  }
  return bytes;
}

TEST(StepProgram, RanksHoldTheModelTogether) {
  const StepProgram whole = program("llama-3.1-8b", decode(2, 300, 64));
  for (const std::int64_t ranks : {2, 4, 8}) {
    const StepProgram first = shared_program("llama-3.1-8b", decode(2, 300, 64), ranks, 0);
    const auto n = static_cast<std::size_t>(ranks);
    EXPECT_EQ(n * weights_of(first, false), weights_of(whole, false)) << ranks;
    EXPECT_EQ(weights_of(first, true), weights_of(whole, true)) << ranks;  // norms
  }
}

/// A collective reads and writes the others' buffers at the places that its own rank has.
TEST(StepProgram, RanksLayTheirBuffersAlike) {
  const StepProgram first = shared_program("llama-3.2-1b", decode(3, 100, 16), 4, 0);
  for (const std::int64_t rank : {1, 2, 3}) {
    const StepProgram p = shared_program("llama-3.2-1b", decode(3, 100, 16), 4, rank);
    EXPECT_EQ(p.bytes, first.bytes);
    ASSERT_EQ(p.buffers.size(), first.buffers.size());
    for (std::size_t i = 0; i < p.buffers.size(); ++i) {
      EXPECT_EQ(p.buffers[i].offset, first.buffers[i].offset) << p.buffers[i].name;
      EXPECT_EQ(p.buffers[i].bytes, first.buffers[i].bytes) << p.buffers[i].name;
    }
  }
}

TEST(StepProgram, SumsOverRanksAreInPlaceBehindRowParallelProducts) {
  for (const Workload& w : {decode(2, 100, 64), prefill(1, 40)}) {
    const StepProgram p = shared_program("llama-3.2-1b", w, 2, 1);
    std::int64_t sums = 0;
    for (std::size_t i = 1; i < p.launches.size(); ++i) {
      const auto* sum = std::get_if<Collective>(&p.launches[i].op);
      if (sum == nullptr || sum->kind != CollectiveKind::all_reduce) continue;
      ++sums;
      EXPECT_EQ(p.launches[i].x.buffer, p.launches[i - 1].y.buffer);
      EXPECT_EQ(p.launches[i].x.offset, p.launches[i].y.offset);
      EXPECT_EQ(p.launches[i].y.buffer, p.launches[i].x.buffer);
      EXPECT_EQ(static_cast<std::size_t>(sum->bytes), buffer(p, p.launches[i].x).bytes);
      const bool product = std::holds_alternative<Gemm>(p.launches[i - 1].op);
      EXPECT_TRUE(product || std::holds_alternative<Embedding>(p.launches[i - 1].op));
    }
    EXPECT_EQ(sums, 1 + 2 * 16);  // the embedding's, and two a layer
  }
}

/// Sequence parallelism: a rank's own rows between the products, which a reduce-scatter leaves and an all-gather joins again.
TEST(StepProgram, SequenceParallelRanksKeepTheirOwnRows) {
  for (Workload w : {decode(4, 100, 64), prefill(2, 40)}) {
    w.parallel.sequence = true;
    const StepProgram p = shared_program("llama-3.2-1b", w, 2, 1);
    const std::int64_t tokens = w.phase == Phase::decode ? 4 : 80;
    std::int64_t scattered = 0, gathered = 0;
    for (std::size_t i = 1; i < p.launches.size(); ++i) {
      const StepLaunch &l = p.launches[i], &before = p.launches[i - 1];
      if (const auto* norm = std::get_if<Rowwise>(&l.op); norm != nullptr && norm->kind == RowwiseKind::rmsnorm) {
        EXPECT_EQ(norm->rows, tokens / 2);
        EXPECT_EQ(before.y.buffer, l.x.buffer);
      }
      const auto* s = std::get_if<Collective>(&l.op);
      if (s == nullptr) continue;
      EXPECT_NE(s->kind, CollectiveKind::all_reduce);
      EXPECT_EQ(l.x.buffer, before.y.buffer);
      EXPECT_NE(l.y.buffer, l.x.buffer) << "peers read the one while the other is written";
      const bool scatters = s->kind == CollectiveKind::reduce_scatter;
      ++(scatters ? scattered : gathered);
      const auto whole = static_cast<std::size_t>(s->bytes);
      EXPECT_EQ(buffer(p, l.y).bytes, scatters ? whole / 2 : whole);
      EXPECT_EQ(buffer(p, l.x).bytes - l.x.offset, scatters ? whole : whole / 2)
          << "a head reads each rank's last rows";
    }
    EXPECT_EQ(scattered, 1 + 2 * 16);     // the embedding's, and two a layer
    EXPECT_EQ(gathered, 2 * 16 + 1 + 1);  // two a layer, before the head and of its logits
  }
  Workload odd = prefill(1, 41);
  odd.parallel.sequence = true;
  EXPECT_THROW(shared_program("llama-3.2-1b", odd, 2, 0), NotModelled) << "rows that do not divide";
}

/// What a card is asked to run can be run: nobody finds out on the card.
TEST(StepProgram, RunsEveryStepOnTheListsOfEveryRank) {
  constexpr double kRoom = 0.98 * 141e9;  // of an H200
  for (const char* list : {"steps.csv", "steps.tp2.csv", "steps.tp4.csv", "steps.tp8.csv"}) {
    const std::string file = data_folder() + "/studies/" + list;
    for (const StepCase& what : parse_step_study(read_text_file(file), file)) {
      const Graph graph = lower(step_llm(what), what.workload);
      StepPrediction step;
      step.graph = graph;
      step.nodes.resize(graph.nodes.size());
      for (std::int64_t rank = 0; rank < what.workload.parallel.tensor; ++rank) {
        const StepProgram p = step_program(step, what.workload, kScratch, rank);
        EXPECT_LT(static_cast<double>(p.bytes), kRoom) << step_text(what);
        EXPECT_TRUE(p.logits.there());
      }
    }
  }
}

/// The step with the logits of all ranks gathered before one is chosen.
StepPrediction with_gathered_logits(const Workload& w) {
  StepPrediction step = lowered("llama-3.2-1b", w);
  std::vector<Node>& nodes = step.graph.nodes;
  if (!std::holds_alternative<Collective>(nodes[nodes.size() - 2].op)) {
    Node sample = nodes.back(), gather = nodes.back();
    auto& row = std::get<Rowwise>(sample.op);
    row.cols *= w.parallel.tensor;
    Collective all;
    all.kind = CollectiveKind::all_gather;
    all.bytes = 2 * row.rows * row.cols;
    all.gpus = w.parallel.tensor;
    gather.name = "logits_all_gather";
    gather.op = all;
    gather.stream = 1;
    sample.depends[0] += 1;
    nodes.back() = gather;
    nodes.push_back(sample);
    step.graph.segments.back().size += 1;
    step.nodes.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) step.nodes[i].node = &nodes[i];
  }
  return step;
}

TEST(StepProgram, LogitsOfAllRanksAreGathered) {
  Workload w = decode(3, 100, 16);
  w.parallel.tensor = 4;
  const StepPrediction step = with_gathered_logits(w);
  const StepProgram p = step_program(step, w, kScratch, 2);
  ASSERT_GE(p.launches.size(), 3U);
  const StepLaunch &head = *(p.launches.end() - 3), &gather = *(p.launches.end() - 2), &choice = p.launches.back();
  EXPECT_EQ(gather.x.buffer, head.y.buffer);
  EXPECT_NE(gather.y.buffer, gather.x.buffer);
  EXPECT_EQ(buffer(p, gather.y).bytes, 4 * buffer(p, gather.x).bytes);
  EXPECT_EQ(choice.x.buffer, gather.y.buffer);
  EXPECT_EQ(p.logits.buffer, head.y.buffer);
  Workload other = w;
  other.parallel.tensor = 2;  // not the ranks that the graph was made for
  EXPECT_THROW(step_program(step, other, kScratch, 0), NotModelled);
}

TEST(StepProgram, ATokenIsOneRanksAndZerosOnTheOthers) {
  const std::int64_t ranks = 4, rows = 64;
  std::vector<int> owners(static_cast<std::size_t>(rows));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const StepProgram p = shared_program("llama-3.2-1b", decode(rows, 100, 64), ranks, rank);
    const StepBuffer& table = buffer(p, p.launches.front().weight);
    const auto row = static_cast<std::size_t>(2 * std::get<Embedding>(p.launches.front().op).cols);
    EXPECT_EQ(table.zeros_behind, row);
    const auto zeros = static_cast<std::int32_t>(table.bytes / row - 1);
    EXPECT_EQ(zeros, 128256 / 4);
    const std::vector<std::int32_t>& ids = buffer(p, p.ids).integers;
    ASSERT_EQ(ids.size(), owners.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_GE(ids[i], 0);
      EXPECT_LE(ids[i], zeros);
      owners[i] += ids[i] < zeros ? 1 : 0;
    }
    EXPECT_NE(p.choice.buffer, p.ids.buffer) << "a rank's choice is among its own columns";
  }
  for (const int count : owners) EXPECT_EQ(count, 1);
}

TEST(StepProgram, DecodeFeedsWhatItChose) {
  const StepProgram p = program("llama-3.2-1b", decode(2, 100, 64));
  EXPECT_EQ(p.choice.buffer, p.launches.front().x.buffer);
}

TEST(StepProgram, APrefillsHeadReadsTheLastRows) {
  const StepProgram p = program("llama-3.2-1b", prefill(2, 40));
  const StepLaunch& head = p.launches[p.launches.size() - 2];
  EXPECT_EQ(head.x.offset, std::size_t{78 * 2048 * 2});
  EXPECT_NE(p.choice.buffer, p.launches.front().x.buffer);
}

TEST(StepProgram, RunsFp8AndHeadNorms) {
  Workload w = decode(4, 64, 64);
  w.precision = *parse_precision("fp8");
  w.precision_given = true;
  const StepProgram fp8 = program("llama-3.1-8b", w);
  EXPECT_TRUE(std::any_of(fp8.buffers.begin(), fp8.buffers.end(),
                          [](const StepBuffer& b) { return b.fill == StepFill::normal && b.type == DType::fp8; }));
  const StepProgram qwen = program("qwen3-8b", decode(4, 64, 64));
  EXPECT_TRUE(std::any_of(qwen.launches.begin(), qwen.launches.end(), [](const StepLaunch& l) {
    return std::holds_alternative<Rowwise>(l.op) && l.x.buffer == l.y.buffer;
  }));
}

TEST(StepProgram, RunsAModelPublishedInFp16) {
  for (const Workload& w : {decode(4, 64, 64), prefill(2, 40)}) {
    const StepProgram p = program("llama-2-7b", w);
    EXPECT_EQ(p.type, DType::fp16);
    for (const StepBuffer& b : p.buffers) EXPECT_TRUE(b.fill != StepFill::normal || b.type == DType::fp16) << b.name;
    for (const StepLaunch& l : p.launches) {
      const auto* gemm = std::get_if<Gemm>(&l.op);
      const auto* rows = std::get_if<Rowwise>(&l.op);
      EXPECT_TRUE(gemm == nullptr || gemm->precision == *parse_precision("fp16"));
      EXPECT_TRUE(rows == nullptr || rows->input == DType::fp16);
    }
  }
}

TEST(StepProgram, Fp16IsOfTheSameBytesAndBuffersAsBf16) {
  Workload w = decode(4, 64, 64);
  const StepProgram bf16 = program("llama-3.1-8b", w);
  w.precision = *parse_precision("fp16");
  w.precision_given = true;
  w.kv_dtype = DType::fp16;
  const StepProgram fp16 = program("llama-3.1-8b", w);
  EXPECT_EQ(bf16.type, DType::bf16);
  EXPECT_EQ(fp16.type, DType::fp16);
  EXPECT_EQ(fp16.bytes, bf16.bytes);
  ASSERT_EQ(fp16.launches.size(), bf16.launches.size());
}

TEST(StepProgram, SaysWhatItDoesNotRun) {
  EXPECT_THAT(refusal("qwen2.5-7b", decode(1, 100, 64)), HasSubstr("bias"));
  EXPECT_NE(refusal("mixtral-8x7b", decode(1, 100, 64)), "");
  EXPECT_NE(refusal("deepseek-v3", decode(1, 100, 64)), "");
  EXPECT_NE(refusal("gpt-j-6b", prefill(1, 100)), "");
  EXPECT_NE(refusal("bert-base-uncased", prefill(1, 100)), "");
}

}  // namespace
}  // namespace plumbline::step_program_test
