// What mixes tokens in a layer: softmax attention in its forms, state-space recurrences, short convolutions.
//
// A mixer is one struct in a file of its own (ops/mixer/<name>.cpp): its sizes, how they are read from a config, its
// parameters, what it keeps between steps and while training, and the operators that it becomes. The file has a line in
// table.hpp; nothing else asks which mixer a layer has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "arch/dtype.hpp"

namespace plumbline {

namespace lowering {
class Step;
}

/// Weights in matrix products (which quantization stores narrower) and the rest: biases, norms, sinks, short
/// convolutions, recurrence vectors (which stay in 16 bits or more).
struct ParamCount {
  double matrices = 0, vectors = 0;
  double total() const { return matrices + vectors; }
  ParamCount& operator+=(const ParamCount& other) {
    matrices += other.matrices;
    vectors += other.vectors;
    return *this;
  }
};

/// For which sequence a mixer says what it keeps between steps.
struct CacheQuery {
  DType kv = DType::bf16;    ///< keys and values
  DType base = DType::bf16;  ///< activations
  double tokens = 0;         ///< cached and new
  std::int64_t tensor = 1;   ///< degree of tensor parallelism
};

/// For which step, on one rank, a mixer says how much activation memory it takes.
struct MixerLoad {
  double tokens = 0, hidden = 0;     ///< tokens of all sequences, and the layer's width
  double kv_tokens = 0, kv_len = 0;  ///< tokens that keys come from: of all sequences, and of one
  double element = 2;                ///< bytes of one activation
  double tensor = 1;                 ///< degree of tensor parallelism
  bool flash = true;                 ///< attention keeps no scores
  bool dropout = false, decode = false;
  bool fused = false;  ///< all that is known to be fused (fusion max)
  bool eager = false;  ///< kept for the backward pass as an eager framework keeps it (Training::eager)
  double softmax =
      4;  ///< bytes of a probability that eager code works with, which it casts where they are more than `element`
  double normalized = 2;   ///< bytes of an element of the rows that an eager RMSNorm keeps beside its fp32 input
  double score_bytes = 0;  ///< that training keeps of each score (Training::score_bytes)
  double input = 0;        ///< bytes of an element of what products keep of their input; 0: `element`
};

/// Segments of a graph: a layer with this mixer, and one whose feed-forward part is a mixture of experts.
struct SegmentNames {
  const char* dense = "layer";
  const char* experts = "moe_layer";
};

class LayerMixer;

/// Goes over the sizes of a mixer by name, to write them to a graph file or to read them from one.
class MixerSizes {
 public:
  MixerSizes() = default;
  MixerSizes(const MixerSizes&) = delete;
  MixerSizes& operator=(const MixerSizes&) = delete;
  virtual ~MixerSizes() = default;
  virtual void whole(const char* name, std::int64_t& value) = 0;
  virtual void flag(const char* name, bool& value) = 0;
  virtual void type(const char* name, DType& value) = 0;
  virtual void part(const char* name, LayerMixer& value) = 0;
  void whole(const char* name, int& value) {
    std::int64_t wide = value;
    whole(name, wide);
    value = static_cast<int>(wide);
  }
};

class Mixer {
 public:
  virtual ~Mixer() = default;

  /// What the field calls it, for the report's line of layers: "gqa", "mla", "mamba2".
  virtual std::string kind() const = 0;
  /// What graph files call it ("gqa"); "": they have no word for it.
  virtual std::string_view block() const { return ""; }
  /// Each size that two of a kind may differ in.
  virtual void sizes(MixerSizes& /*visitor*/) {}
  /// Of the same kind: with the same sizes, and with those that a file may leave out.
  virtual std::shared_ptr<Mixer> copy() const = 0;
  virtual std::shared_ptr<Mixer> fresh() const = 0;

  /// Weight elements between a hidden state of this width and the next, exact.
  virtual ParamCount params(std::int64_t hidden) const = 0;
  /// Of these, the elements that a token does not use: experts that it was not sent to.
  virtual double idle_params(std::int64_t /*hidden*/) const { return 0; }
  /// Of `params`, weights of routed experts, which may be stored in a type of their own.
  virtual double expert_params(std::int64_t /*hidden*/) const { return 0; }
  /// Of `params`, those that each tensor rank holds whole.
  virtual double whole_params(std::int64_t /*hidden*/) const { return 0; }
  /// Elements that one more token adds to the KV cache with no window applied, and to the indexer's keys beside it.
  virtual double kv_elements() const { return 0; }
  virtual double index_elements() const { return 0; }
  /// What one sequence keeps between two steps.
  virtual Bytes cache(const CacheQuery& query) const = 0;
  /// What a training step keeps for the backward pass, bytes.
  virtual double stored(const MixerLoad& load) const = 0;
  /// The widest set of tensors alive beside the residual stream in a step without a backward pass, elements.
  virtual double live(const MixerLoad& load) const = 0;
  /// Partial results that decode kernels may need room for, over all sequences.
  virtual Bytes partials(double /*sequences*/, std::int64_t /*tensor*/) const { return Bytes(); }
  virtual SegmentNames segment() const { return {}; }
  /// Heads that tensor ranks share evenly, or not at all; 0: its widths split anywhere.
  virtual std::int64_t split_heads() const { return 0; }
  /// Whether it says at all how tensor ranks share it.
  virtual bool splits_ranks() const { return true; }
  /// Its keys and values may lie with several ranks, each part of the sequence with one (context parallelism).
  virtual bool splits_context() const { return false; }
  /// Appends its operators to the open segment, from the (normed) hidden states to its output of tokens x hidden.
  virtual void lower(lowering::Step& step) const = 0;
  /// Of the same kind, with the same sizes.
  virtual bool same_as(const Mixer& other) const = 0;
};

/// Base of each mixer's struct, which compares its own members: bool operator==(const Spec&) const = default.
template <class Spec>
class MixerOf : public Mixer {
 public:
  std::shared_ptr<Mixer> copy() const final { return std::make_shared<Spec>(static_cast<const Spec&>(*this)); }
  std::shared_ptr<Mixer> fresh() const final { return std::make_shared<Spec>(); }
  bool same_as(const Mixer& other) const final {
    const auto* spec = dynamic_cast<const Spec*>(&other);
    return spec != nullptr && static_cast<const Spec&>(*this) == *spec;
  }
  bool operator==(const MixerOf&) const { return true; }
};

/// The mixer of a layer, or none. Copies share it, so that a model of equal layers holds it once; `edit` takes it apart.
class LayerMixer {
 public:
  LayerMixer() = default;
  template <class Spec>
  requires std::is_base_of_v<Mixer, Spec> LayerMixer(Spec spec)
      : held_(std::make_shared<const Spec>(std::move(spec))) {}  // NOLINT(google-explicit-constructor)

  explicit LayerMixer(std::shared_ptr<const Mixer> held) : held_(std::move(held)) {}

  explicit operator bool() const { return held_ != nullptr; }
  const Mixer& operator*() const { return *held_; }
  const Mixer* operator->() const { return held_.get(); }

  /// The sizes, or null when it is of another kind or none.
  template <class Spec>
  const Spec* as() const {
    return dynamic_cast<const Spec*>(held_.get());
  }
  /// A copy of its own to change. Throws std::bad_cast when it is of another kind; there must be one.
  template <class Spec>
  Spec& edit() {
    auto own = std::make_shared<Spec>(dynamic_cast<const Spec&>(*held_));
    held_ = own;
    return *own;
  }

  friend bool operator==(const LayerMixer& a, const LayerMixer& b) {
    return a.held_ == b.held_ || (a.held_ != nullptr && b.held_ != nullptr && a.held_->same_as(*b.held_));
  }

 private:
  std::shared_ptr<const Mixer> held_;
};

}  // namespace plumbline
