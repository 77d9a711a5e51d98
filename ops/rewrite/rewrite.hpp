// What a framework makes of an operator: the launches that run in its place. A stack's file says them
// (model/stacks/stack.hpp); lowering at fusion `none` gives the operators of the model's source, one node each.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/graph/graph.hpp"
#include "ops/graph/workload.hpp"
#include "ops/rewrite/expression.hpp"
#include "ops/table/table.hpp"

namespace plumbline {

/// Numbers that an expression of a rule may name, beside the keys of the operator that it is for:
///   w        bytes of an element of the operator's type
///   batch    sequences of the step, where the operator has no key of that name
///   seqs     the same, of any operator
///   fresh    tokens a sequence that are new
///   cached   tokens a sequence that are in the cache before
///   group    query heads that share a key and value head; 0: no such attention
///   heads    query heads of an attention layer; 0: no such attention
///   rotary   share of a head's columns that rotary positions turn
/// and in training, else 0:
///   p        bytes of a parameter
///   tied     1 where the head's weights are the embedding's
///   adds     share of the micro-batches whose gradients are added to those of others
///   vocab    tokens of the vocabulary
///   width    of the residual stream
///   block    elements that share a scale of fp8, where the operator has no key of that name; 0: all of a tensor
///   drops    1 where training drops elements, 0 where the model's config switches that off
///   scores_drop  the same of attention's scores alone, which have a share of their own in configs
///   inner_drop   the same of what a feed-forward part's last product reads
///   table    elements that the rank updates of an input embedding whose weights are not the head's too; else 0
///   undrawn  share of its rows that no token of the step is
///   stacked  experts of a layer, whose matrices lie in one tensor
///   tensors  that lists of the update hold, where a rank has all of each; else 0
///   made     bytes of an element of the gradients that products make: of a parameter, or, sharded with wider shares, of what
///            is gathered
///   again    1 where layers are computed again in the backward pass (gradient checkpointing), else 0
inline constexpr std::size_t kStepNames = 23;

/// What rules ask of the model.
struct Vocabulary {
  std::int64_t tokens = 0;
  bool tied = false;
  std::int64_t width = 0;  ///< of its vectors
  double group = 0;        ///< of query heads
  double heads = 0;        ///< query heads
  bool drops = true;
  bool scores_drop = false;
  bool inner_drop = false;
  double rotary = 1;  ///< share of a head's columns that is rotated
  double table = 0;   ///< elements of an input embedding of its own that the rank updates
  /// Share of that one's rows which no token of an update is. Such a row has no gradient and, as long as the tokens of all
  /// updates before were the same or it was not drawn then either, moments of zero.
  double undrawn = 0;
  double stacked = 0;  ///< experts of a layer
  std::string_view
      activation{};  ///< what its source calls that of its feed-forward parts, of the model as long as it lives
};

/// One launch: an operator whose keys are worked out.
struct LaunchRule {
  struct KeyRule {
    const Key* key = nullptr;
    Expression value;
  };
  std::string name;
  const Operator* op = nullptr;    ///< null: the node's own, as it is
  std::optional<DType> type{};     ///< where it is not the type of the node's operator
  std::vector<Expression> lets{};  ///< worked out first, in their order: keys may name them behind all other names
  std::vector<KeyRule> keys{};
  bool in_call = false;               ///< the library's call that launches the product launches it too
  double calls = 1;                   ///< what the host takes for it, where it goes through tensors in a loop
  bool waits = false;                 ///< the host waits until it is done
  std::optional<Expression> times{};  ///< how often it runs for its node, rounded; 0: not at all. Empty: once
};

/// What becomes of the nodes of one operator: none, one or more launches. A rule of the backward pass is for the forward
/// node: its launches stand in the place of all nodes of that one's gradient. What is computed again in the backward pass
/// goes by the forward pass's rules.
struct NodeRule {
  std::string op;
  Pass pass = Pass::forward;
  std::vector<std::string> nodes;        ///< by name; empty: all of that operator
  std::vector<std::string> model_types;  ///< of these alone; empty: of any model
  std::vector<std::string> activations;  ///< of models with these in their feed-forward parts alone; empty: of any
  bool in_prefill = true, in_decode = true;
  bool autocast = false;  ///< where an eager framework's layers read casts of wider parameters, alone
  int lists = 0;          ///< of an update: lists of tensors that the framework walks to launch these
  std::vector<LaunchRule> launches;

  /// Of models of a kind, with this activation.
  struct Source {
    std::string_view model_type, activation;
  };
  bool is_for(const Source& source, bool decode, bool casts) const;
  /// Of those, whether it is for a node of this name (without the end of what is computed again) and operator.
  bool is_for(std::string_view node, std::string_view of, Pass in) const;
};

/// Names of an operator's expressions: its keys in their order, then those above. Throws BadInput for no operator.
std::vector<std::string> expression_names(std::string_view op);

/// In the order of a file: the first rule that is for a node is taken.
struct Rewrites {
  std::vector<NodeRule> rules;
  /// Families whose whole lists were held against what ran; empty: nobody says.
  std::vector<std::string> held = {};
  /// Families whose classes share the head with the embedding, whatever their configs say.
  std::vector<std::string> ties = {};
  /// A layer that is computed again ends where the backward pass has all that it reads: additions behind its last product
  /// keep nothing, and the product itself has kept its operands before it runs (early stop of torch.utils.checkpoint).
  bool stops_early = false;
  bool empty() const { return rules.empty(); }
  bool is_held(std::string_view model_type) const;
  bool is_tied(std::string_view model_type) const;
  /// Whether products of such a family have casts of their own under autocast.
  bool casts_of(std::string_view model_type) const;
};

/// Puts launches in place of nodes. They run as often, one behind the other, and are called "node.launch". A node whose
/// rule has no launch is gone: the framework does not run it. Throws BadInput where a rule gives an operator a value that
/// it does not take. `memory` stays as it is.
void rewrite(Graph& graph, const Rewrites& rewrites, const Workload& workload, std::string_view model_type,
             const Vocabulary& vocabulary = {});

}  // namespace plumbline
