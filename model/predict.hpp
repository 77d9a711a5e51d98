// The public entry points: what an operator, or a step of a model, costs on a GPU.
//
//   Machine machine = make_machine(load_gpu("h200_sxm"), MachineOptions{});
//   Workload workload;
//   workload.phase = Phase::decode;
//   Predictor predictor;
//   StepPrediction step = predictor.predict(load_llm("llama-3.1-8b"), workload, machine, RunOptions{});
//
// (tests/model/predict_example_test.cpp compiles these lines as they stand here.)
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/engine/launch.hpp"
#include "model/machine.hpp"
#include "model/machines.hpp"
#include "model/types.hpp"
#include "ops/lower/lower.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// Quantiles of ln(measured / predicted): 5 %, 50 % and 95 %.
struct BandRange {
  double low = 0, middle = 0, high = 0;
};

/// The launches of an operator: while it is planned, room for the most that one has; a copy holds those alone that there
/// are. (A step of ten thousand operators would be 75 MB otherwise, most of it never looked at.)
class Launches {
 public:
  static constexpr std::size_t kMost = 12;
  Launches() = default;
  Launches(const Launches& other) : kept_(other.begin(), other.end()), count_(other.count_) {}
  Launches(Launches&&) noexcept = default;
  ~Launches() = default;
  Launches& operator=(const Launches& other) {
    if (this != &other) kept_.assign(other.begin(), other.end());
    count_ = other.count_;
    return *this;
  }
  Launches& operator=(Launches&&) noexcept = default;

  /// What a planner writes into; then hold() says how many there are.
  std::span<LaunchPrediction, kMost> room() {
    if (kept_.size() < kMost) kept_.resize(kMost);
    return std::span<LaunchPrediction, kMost>(kept_.data(), kMost);
  }
  void hold(std::size_t count) { count_ = count; }

  LaunchPrediction& operator[](std::size_t i) { return kept_[i]; }
  /// Of an operator without launches the first one is an empty launch.
  const LaunchPrediction& operator[](std::size_t i) const { return i < kept_.size() ? kept_[i] : none(); }
  const LaunchPrediction& front() const { return (*this)[0]; }
  LaunchPrediction* data() { return kept_.data(); }
  const LaunchPrediction* data() const { return kept_.data(); }
  const LaunchPrediction* begin() const { return kept_.data(); }
  const LaunchPrediction* end() const { return kept_.data() + count_; }

 private:
  static const LaunchPrediction& none() {
    static const LaunchPrediction empty{};
    return empty;
  }
  std::vector<LaunchPrediction> kept_;
  std::size_t count_ = 0;
};

struct OpPrediction {
  /// One execution among others back to back in a CUDA graph: its launches plus a graph gap each. (A profiler's kernel
  /// duration is the same but for the part of each gap that it shows as idle: kernel_time() of model/report/report.hpp.)
  Seconds time;
  Seconds low, high;           ///< 5-95 % band; low <= time <= high, low >= roofline
  Seconds roofline;            ///< what no kernel can be faster than, as the operands are found
  long band_rows = 0;          ///< measured rows behind the band; 0: no measurement of the class is on file
  std::size_t band_class = 0;  ///< model/bands/bands.hpp
  KernelSet band_kernels = KernelSet::library;  ///< whose residuals the band is of
  const Band* band = nullptr;                   ///< lives in the machine; null for ideal kernels
  BandRange band_range;                         ///< the band's, as wide as a changed descriptor makes it
  Bound bound = Bound::latency;
  Resource limiter = Resource::latency;  ///< of the longest launch
  double limiter_share = 0;              ///< that resource's own time / time
  Flops flops;                           ///< useful work (ops/facts/work.hpp)
  Flops tensor;                          ///< ... of which on tensor cores, in `math` format
  DType math = DType::bf16;
  Bytes dram_read, dram_write;
  /// Mean board power over `time`, and its product with it. Empty where no energies of the card are on file.
  std::optional<Watts> power;
  std::optional<Joules> energy;
  std::optional<Watts> power_low, power_high;  ///< 5-95 % band of `power`
  Joules chip_energy, memory_energy;           ///< of `energy`: of the work itself, at the boost clock's voltage
  Joules tensor_estimate;  ///< what the board's limit on tensor work counts, at that voltage (model/engine/power.hpp)
  Hertz clock;             ///< mean SM clock: less than the one set where tensor units work
  /// The board's power limit holds the clock down; `uncapped` is what the time would be without it.
  bool power_limited = false;
  Seconds uncapped;
  Provenance provenance = Provenance::datasheet;
  const FamilyScalars* scalars = nullptr;  ///< of the main launch's kernel family; lives in the machine
  std::string_view family;                 ///< kernel family whose scalars and band were used
  std::string_view provider;               ///< who wrote the kernels: a provider of the machine's stack
  bool stands_in = false;                  ///< ... in place of one that the stack's author has not written
  bool alike = false;            ///< the calibration has no scalars of these kernels: others that work alike are priced
  GemmPlan gemm_plan;            ///< zero unless a GEMM
  AttentionPlan attention_plan;  ///< zero unless attention
  Launches launches;
  int launch_count = 0;

  Bytes dram_bytes() const { return dram_read + dram_write; }
  Intensity intensity() const { return flops / dram_bytes(); }
};

/// Circumstances of one execution.
struct PredictOptions {
  /// Every operand was touched just before, as when one execution is repeated on the same buffers: if all of them fit
  /// in L2 together, nothing crosses the DRAM interface. The plan stays that of cold operands.
  bool warm = false;
  /// Operands lie in DRAM, and what L2 holds was only read, as where a bench reads through a large array before each
  /// launch: what a launch leaves written in L2 is then nobody's time. Else it finds as much as it leaves. Counts for this
  /// project's row-wise kernels, whose coefficients were found without.
  bool read_through = false;
  /// As it was cut when it was measured: priced in place of the cheapest plan where our own menu has it. Not owned.
  const GemmPlan* gemm_plan = nullptr;
  const AttentionPlan* attention_plan = nullptr;
  Resident resident{};  ///< where not everything is; of library GEMM only
  /// A library's kernels cut as is cheapest of what they can launch, in place of the library's own rule.
  bool cut_by_time = false;
  /// A collective by itself, as benchmarks call it: without what the stack's call of it takes.
  bool alone = false;
  /// Called on a stream, not captured in a graph. Collectives then go by way of the library's own buffers; the longer gap
  /// between launches is not in here.
  bool queued = false;
  /// As a collective was run when it was measured; automatic: as the machine's stack has it.
  CollectiveChoice collective = CollectiveChoice::automatic;
};

/// The roofline floor with datasheet peaks at the boost clock: max(FLOPs / peak, bytes / bandwidth).
Seconds roofline(const Op& op, const GpuNumbers& gpu);

struct RunOptions {
  Runtime runtime = Runtime::graph;
};

struct NodePrediction {
  const Node* node = nullptr;  ///< into StepPrediction::graph
  OpPrediction op;             ///< one execution
  Seconds gap;                 ///< launch gap of one execution that the host or the graph leaves exposed
  /// Where streams run side by side (Graph::side_by_side), of one execution, on the mean: by how much it is longer for what
  /// runs beside it; and of a collective, for how long others work meanwhile, so that nobody waits for it.
  Seconds tax, hidden;
  int beside = -1;        ///< node of the other stream that runs beside it longest
  Seconds begins;         ///< within a repetition of its segment that others come before and after
  double held = 0;        ///< share of what it streams that L2 still holds, as its predecessor wrote it
  std::size_t first = 0;  ///< number of the first node that runs the same operator under the same conditions

  /// What one execution adds to the step's time.
  Seconds on_path() const { return op.time + gap + tax - hidden; }
  /// Share of an execution, gap and all, that the step waits for.
  double waited_for() const { return hidden > Seconds{} ? on_path() / (op.time + gap + tax) : 1; }
};

/// Parts of the step's time that go to each kind of bound; they sum to 1. Were all resources of a kind faster by one part
/// in a thousand, the step would be shorter by a thousandth of the kind's share (at the clock that it runs at).
struct TimeShare {
  double compute = 0, memory = 0, network = 0, latency = 0, launch = 0;
};

/// Of a node's FLOPs on tensor cores, those that a forward pass has computed before: all of what is computed again, and
/// the scores of attention's backward pass.
double computed_again(const Node& node);

/// kDenseSteps or kExpertSteps.
std::string_view step_kind(const Graph& graph);

struct StepPrediction;
/// That of its graph; kWaitingSteps where a framework's host, whose time a launch the stack names, is what it waits for.
std::string_view step_kind(const StepPrediction& step);

/// What a stage that trains takes for its turns, as its schedule lays them out. Of a rank that holds two stages a turn is one
/// stage's, the mean of both; `both`: a forward and a backward pass together.
struct StageTurns {
  Seconds forward, backward, both;
  Seconds weights;                        ///< of `backward`: gradients of weights
  Seconds forward_sends, backward_sends;  ///< of those: handing on
  Seconds sums, update, gathers;  ///< once an iteration, behind the passes of all: replicas' exchanges, the rest
};

/// What a stage of a pipeline takes for one micro-batch; `sends`: handing it on, where that is not in `time`.
struct StageTime {
  Seconds time, sends;
  StageTurns turns;  ///< of training
};

/// The stages of a pipeline beside its slowest one.
struct StagesBeside {
  double waits = 0;                     ///< bubble of the slowest / time that it is busy
  double all_busy = 1, all_energy = 1;  ///< time and energy of all stages' work / the slowest's
  /// Of training, on tensor cores at their peaks: a stage's mean work / the slowest's, of what the model needs and of all.
  double mean_needed = 1, mean_work = 1;
  std::vector<StageTime> each;  ///< of the pipeline; empty of one stage
};

/// Of several GPUs nodes and sums are those of one rank, of the fullest replica and the slowest stage; `tokens_per_s` and
/// `energy` are of all.
struct StepPrediction {
  Graph graph;
  std::vector<NodePrediction> nodes;
  Seconds latency, low, high;  ///< one step
  /// Collectives, hand-overs between stages and copies to and from the host: what the step waits for, and what runs beside
  /// other operators.
  Seconds network_exposed, network_hidden;
  Seconds host_exposed, host_hidden;  ///< of those, copies to and from the host
  bool waits_for_host =
      false;  ///< the GPU is idle while the stack's host, which has its own time a launch, makes the next
  bool host_measured = false;  ///< that host's time a launch is the machine's own (--host), not the stack's
  /// What the host takes for launches that go one by one, and for layers, over what the GPU takes for them; 0: launches are
  /// queued or in a graph.
  double host_ratio = 0;
  Seconds between_steps;   ///< what the stack's host does while the GPU has nothing to do, once a step; in `latency`
  Seconds overlap_tax;     ///< by how much compute is longer for the communication that runs beside it
  Seconds bubble;          ///< of `latency`: the rank waits for other stages of its pipeline
  std::int64_t stage = 0;  ///< of the pipeline, that the nodes are of: the slowest
  StagesBeside stages;
  /// Residuals of steps that were measured whole: [low, high] is at least as wide.
  WholeStepBand whole_steps;
  double tokens_per_s = 0;
  TimeShare share;
  Flops flops;
  Bytes dram_bytes;
  double hfu = 0;  ///< of training: the same with what is computed again; mfu leaves it out
  /// FLOPs / (latency x dense tensor peak at the boost clock of the step's main dtype); those of the rank, in training of the
  /// mean stage, so that all GPUs' peaks stand below what the whole model needs.
  double mfu = 0;
  double mbu = 0;  ///< DRAM bytes / (latency x datasheet bandwidth)
  bool fits = true;
  std::optional<Joules> energy;                ///< of all GPUs: the operators', and of gaps and bubbles
  std::optional<Watts> power;                  ///< mean of the slowest rank's GPU
  std::optional<Watts> power_low, power_high;  ///< 5-95 % band: the operators' errors taken to go together
  std::optional<Watts> waiting_power;          ///< in the gaps between launches
  Hertz clock;                                 ///< mean SM clock
  bool power_limited = false;                  ///< as of an operator
  Seconds uncapped;
};

/// Answers questions, and keeps what helps with the next one: plans that were searched for, of the last few machines.
/// Its answers are those of a fresh one, to the bit. Each thread has its own.
class Predictor {
 public:
  Predictor();
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  /// Throws NotModelled for an operator that has no planner yet (collectives between GPUs), BadInput for a shape that
  /// no text of an operator gives (check() of ops/table/text.hpp) and for a dtype that the GPU has no path for.
  OpPrediction predict(const Op& op, const Machine& machine, const PredictOptions& options = {});
  /// The same into `out` (its storage is large: reuse it in loops).
  void predict(const Op& op, const Machine& machine, OpPrediction& out, const PredictOptions& options = {});

  StepPrediction predict(const Llm& llm, const Workload& workload, const Machine& machine, const RunOptions& options);
  /// A step of operators as they are given: what `lower` makes of a model, with nodes replaced or put in
  /// (ops/graph/graph.hpp). Throws BadInput as check(graph) does.
  StepPrediction predict(const Graph& graph, const Machine& machine, const RunOptions& options);
  /// The same into `out`, whose storage is reused: microseconds matter in sweeps.
  void predict(const Llm& llm, const Workload& workload, const Machine& machine, const RunOptions& options,
               StepPrediction& out);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

/// One question to a Predictor of its own.
OpPrediction predict(const Op& op, const Machine& machine, const PredictOptions& options = {});
StepPrediction predict(const Llm& llm, const Workload& workload, const Machine& machine, const RunOptions& options);
StepPrediction predict(const Graph& graph, const Machine& machine, const RunOptions& options);

/// 5-95 % band of energy = power x time: the two err independently (under the cap power hardly errs at all).
struct EnergyBand {
  Joules low, high;
};
EnergyBand energy_band(Joules energy, Watts power, Watts power_low, Watts power_high, Seconds time, Seconds low,
                       Seconds high);

/// The formula of each launch with the numbers in it, as one would write it on a whiteboard. Plain text, several lines.
std::string explain(const Op& op, const OpPrediction& prediction, const Machine& machine);

}  // namespace plumbline
