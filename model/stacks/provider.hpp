// A kernel provider: whoever wrote kernels that a stack runs. It says which kernels it has, how they cut an operator's
// work (the plan) and what that asks of the machine (the demands); the engine prices those. A provider is added by a
// file with its planners and a line in providers.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/engine/launch.hpp"
#include "model/types.hpp"
#include "ops/facts/work.hpp"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

class GemmCache;  // model/stacks/common/gemm_task.hpp

/// What L2 holds of the operands: nothing; a share of what a stream reads, written by its predecessor (Question::held). Or,
/// if they fit, all that streams read, likewise (weights and caches are cold); everything.
enum class Warmth { cold, part, streams, everything };

/// How a library's kernels are cut where its own rule is known: as the rule says; or as our planner would, into what is
/// cheapest of all that the kernels can launch.
enum class Cutting { by_rule, by_time };

/// The rule by which a library picks kernels and cuts, and where it is published.
struct Rule {
  std::string_view library, what, source;
};

/// Kernels of one family err differently on shapes that its scalars were not fitted to, so that their residuals are
/// classes of their own (model/bands/bands.hpp). `usual`: none of the others.
enum class Variant : std::uint8_t {
  usual,
  ragged,       ///< GEMM whose K is no whole number of steps
  math_8bit,    ///< products of 8-bit operands
  sparse,       ///< 2:4 sparse weights
  alone,        ///< prefill attention that neither rotates nor appends, of kernels measured with both
  encoder,      ///< no mask
  latent,       ///< keys wider than values
  cache_8bit,   ///< keys and values stored in 8 bits
  wide_groups,  ///< more than 16 query heads a KV head
  few_keys,     ///< fewer than 127 keys
  across,       ///< products with an operand that lies across what tensor units read
  on_lanes,     ///< products in a type that no tensor unit takes
  count_
};
inline constexpr std::size_t kVariants = static_cast<std::size_t>(Variant::count_);

/// A class of residuals. `fitted`: some family's scalars are fitted to rows of it; else its residuals are out of sample
/// as they are.
struct BandClass {
  Variant variant = Variant::usual;
  const char* name = "";
  bool fitted = true;
};

/// A family of kernels that share a handful of scalars in calibration files.
struct FamilyDeclaration {
  const char* name = "";  ///< in a calibration, behind the set's: "gemm"
  const char* op = "";    ///< operator that its kernels run; "": several. A stack that has it run by others reads none
  bool required = true;   ///< a calibration without it is refused; else its kernels are not on file
  /// Family of a calibration, with its set, whose scalars stand in where there are none of its own; null: none do.
  const char* stand_in = nullptr;
  bool stand_in_inherits = false;  ///< what is priced with those is inherited: its own kernels were never measured
  CarryOver carry{};               ///< how its scalars go over to a card that has none
  /// Its kernels took bursts too short for the regulator to act in, and its share of the tensor rate was fitted to them.
  bool fitted_in_bursts = false;
  /// Kind of its residuals ("matrix", "attention"), and the classes. None: the class is the operator's.
  const char* kind = nullptr;
  std::span<const BandClass> classes{};
  /// A stack that lists the provider first has none of these kernels where the family is not on file: that is said.
  bool noted_when_absent = false;
};

/// What a stack's call of a collective takes beside the library's own time: a stream of its own is forked and joined in
/// the graph, and the ranks do not begin together. One of two waits for the other; one of more for the rank that it hears
/// from and for the one that it sends to.
struct CollectiveCall {
  Seconds fixed, more_than_two;  ///< of any number of ranks; of three and more beside it
  Seconds of(double ranks) const { return ranks > 2 ? fixed + more_than_two : fixed; }
};

/// What a provider is asked: one execution of an operator on a machine.
struct Question {
  const Op& op;
  const Work& work;
  const Rates& rates;
  const std::string& gpu;  ///< its name, for messages
  Warmth warmth = Warmth::cold;
  bool read_through = false;  ///< cold, and what L2 holds was only read: nothing of it waits to be written back
  bool appends = false;       ///< the stack's prefill attention rotates and appends where the operator does not say
  const GemmPlan* gemm_plan = nullptr;            ///< to be priced in place of the cheapest, where the menu has it
  const AttentionPlan* attention_plan = nullptr;  ///< the same
  Resident resident{};
  double held = 1;  ///< of Warmth::part
  Cutting cutting = Cutting::by_rule;
  CollectiveCall collective_call{};
  CollectiveChoice collective = CollectiveChoice::automatic;
  CollectiveProtocol protocol = CollectiveProtocol::automatic;
  bool queued = false;  ///< called on a stream: no graph has captured the launches
  /// Priced alone, at the clock that its power leaves where the rates have power scalars: plans are chosen by their time
  /// there, and not as one of a step's many, which run at a clock of the step.
  bool priced_alone = false;
  GemmCache& cache;
  std::span<const FamilyScalars> families{};  ///< the provider's own, in the order in which it declares them
};

/// What a provider answers: launches in the order in which they run, or a floor.
class Answer {
 public:
  static constexpr std::size_t kMostLaunches = 12;
  explicit Answer(std::span<LaunchPrediction, kMostLaunches> room) : room_(room) {}

  /// Room for the next launch; its demand is the planner's to write, all of it.
  Demand& launch(const char* kernel, const FamilyScalars& family) {
    LaunchPrediction& next = room_[static_cast<std::size_t>(count_++)];
    next.kernel = kernel;
    next.family = &family;
    return next.demand;
  }
  /// Whose residuals the band is of, and whose scalars the report names.
  void sign(const FamilyScalars& main, Variant variant = Variant::usual) {
    main_ = &main;
    variant_ = variant;
  }
  /// A provider that has kernels for the operator, but no scalars in this calibration: the stack's next one prices it with
  /// kernels that work alike, but the band is not of those.
  void lack(const FamilyScalars& own, Variant variant = Variant::usual) {
    lacking_ = &own;
    lacking_variant_ = variant;
  }
  const FamilyScalars* lacking() const { return lacking_; }
  Variant lacking_variant() const { return lacking_variant_; }
  const FamilyScalars& main() const { return *main_; }
  Variant variant() const { return variant_; }
  int count() const { return count_; }

  GemmPlan gemm_plan{};
  AttentionPlan attention_plan{};
  std::optional<DType> math;          ///< of the products, where the kernel's is not the operator's
  Bytes read_beside, written_beside;  ///< DRAM bytes that move beside the launches' own, in no launch's time
  bool unmeasured = false;            ///< nobody timed such a kernel on any card
  Seconds floor;                      ///< of an operator without launches
  Resource floor_limiter = Resource::latency;

 private:
  std::span<LaunchPrediction, kMostLaunches> room_;
  int count_ = 0;
  const FamilyScalars* main_ = nullptr;
  const FamilyScalars* lacking_ = nullptr;
  Variant lacking_variant_ = Variant::usual;
  Variant variant_ = Variant::usual;
};

class Provider {
 public:
  virtual ~Provider() = default;
  /// As stack files say it: "cublas".
  virtual std::string_view name() const = 0;
  /// As flags say it, where that is another word: "tensorrt-llm".
  virtual std::string_view word() const { return name(); }
  /// Section of calibrations that holds its families and its bands: ours, or the libraries'.
  virtual KernelSet set() const { return KernelSet::library; }
  virtual std::span<const FamilyDeclaration> families() const { return {}; }
  /// Names of the operators that it has kernels for; empty: any.
  virtual std::span<const std::string_view> ops() const { return {}; }
  /// It answers where its kernels run, and hands the rest on to the stack's next provider, which is the one that --attention
  /// replaces.
  virtual bool hands_on() const { return false; }
  /// A sentence for the reports of every stack that lists it; "": nothing to say.
  virtual std::string_view assumption() const { return ""; }
  /// The rule that it plans the operator by; null where its plan is the cheapest of those that are worth a look.
  virtual const Rule* rule(const Op& op) const {
    (void)op;
    return nullptr;
  }
  /// A tuner picks its kernel for the operator: the stack whose kernels run where the tuner has no entry for the call, as the
  /// first one of its list. "": no tuner has a say.
  virtual std::string_view untuned_stack(const Op& op) const {
    (void)op;
    return "";
  }
  /// Whether it runs moe_dispatch and moe_combine on that machine, so that a step's tokens go to their experts by those
  /// and not by an all-to-all. `families`: its own.
  virtual bool exchanges_tokens(std::span<const FamilyScalars> families, const Rates& rates) const {
    (void)families;
    (void)rates;
    return false;
  }
  /// Plans the operator, if it has a kernel for it: false leaves it to the stack's next provider. Throws BadInput for a
  /// dtype that the GPU has no path for, NotModelled for an operator that nothing is known of.
  virtual bool plan(const Question& question, Answer& answer) const = 0;
};

}  // namespace plumbline
