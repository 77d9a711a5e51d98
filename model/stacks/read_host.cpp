#include "model/stacks/read_host.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"

namespace plumbline {
namespace {

/// Of a file's host: what goes with another stack's where it is borrowed.
constexpr std::array kOfLaunches{"each_launch",        "each_further_launch", "each_layer",
                                 "each_experts_layer", "narrow_launch",       "each_training_launch"};

/// What the phases of training take, in launches of the narrow model.
struct OfPhase {
  const char* key;
  double TrainingHost::*launches;
  const char* else_as = nullptr;  ///< a key that says it too, where the file lacks this one; unset: it has to say it
};
constexpr std::array<OfPhase, 22> kOfPhases{
    {{"forward_call", &TrainingHost::forward_call},
     {"forward_begin", &TrainingHost::forward_begin},
     {"further_launch", &TrainingHost::further_launch},
     {"forward_layer", &TrainingHost::forward_layer},
     {"experts_layer", &TrainingHost::experts_layer},
     {"backward_call", &TrainingHost::backward_call},
     {"backward_layer", &TrainingHost::backward_layer},
     {"kept_layer", &TrainingHost::kept_layer},
     {"again_layer", &TrainingHost::again_layer},
     {"gathered_unit", &TrainingHost::gathered_unit},
     {"gathered_again_unit", &TrainingHost::gathered_again_unit},
     {"summed_unit", &TrainingHost::summed_unit},
     {"summed_tensor", &TrainingHost::summed_tensor},
     {"summed_bucket", &TrainingHost::summed_bucket},
     {"walked_tensor", &TrainingHost::walked_tensor},
     {"listed_tensor", &TrainingHost::listed_tensor},
     {"walked_shard", &TrainingHost::walked_shard},
     {"listed_shard", &TrainingHost::listed_shard},
     {"gathered_flat", &TrainingHost::gathered_flat, "gathered_unit"},
     {"gathered_again_flat", &TrainingHost::gathered_again_flat, "gathered_again_unit"},
     {"summed_flat", &TrainingHost::summed_flat, "summed_unit"},
     {"shared_matrix", &TrainingHost::shared_matrix, "walked_shard"}}};

constexpr const char* kStacks = "stacks";  // of the data folder

TrainingHost read_training(const JsonValue& v) {
  v.refuse_unknown_keys({"narrow_launch", "forward_begin", "forward_call",  "further_launch",
                         "forward_layer", "experts_layer", "backward_call", "backward_layer",
                         "kept_layer",    "again_layer",   "gathered_unit", "gathered_again_unit",
                         "summed_unit",   "summed_tensor", "walked_tensor", "listed_tensor",
                         "walked_shard",  "listed_shard",  "gathered_flat", "gathered_again_flat",
                         "summed_flat",   "shared_matrix", "summed_bucket", "source"});
  TrainingHost out;
  out.narrow_launch = v.at("narrow_launch").as_seconds();
  if (out.narrow_launch <= Seconds{}) v.at("narrow_launch").fail("expected a time above 0");
  for (const OfPhase& of : kOfPhases) {
    const JsonValue launches = v.at(of.else_as != nullptr && !v.has(of.key) ? of.else_as : of.key);
    out.*of.launches = launches.as_number();
    if (!(out.*of.launches >= 0 && out.*of.launches <= 1000)) launches.fail("expected launches from 0 to 1000");
  }
  (void)v.at("source").as_string();
  return out;
}

/// What launches and layers take in the shipped stack that `host` names.
void borrow_host(const JsonValue& host, HostTime& into) {
  const JsonValue name = host.at("borrowed_from");
  const std::vector<std::string> known = data_names(kStacks);
  into.borrowed_from = name.as_string();
  if (std::find(known.begin(), known.end(), into.borrowed_from) == known.end()) {
    name.fail("expected a stack, found '" + into.borrowed_from + "'" + did_you_mean(into.borrowed_from, known));
  }
  into.within = host.at("within").as_number();
  if (!(into.within >= 1 && into.within <= 100)) host.at("within").fail("expected a factor from 1 to 100");
  for (const char* key : kOfLaunches) {
    if (host.has(key)) host.at(key).fail("expected no time of launches beside borrowed_from");
  }
  const JsonDocument lender =
      JsonDocument::read_file(data_folder() + "/" + kStacks + "/" + into.borrowed_from + ".json");
  const auto theirs = lender.root().find_object("host");
  if (!theirs || !theirs->has("each_launch"))
    name.fail("stack " + into.borrowed_from + " has no each_launch of its own");
  const auto copy = [&](const char* key, Seconds& time) {
    if (theirs->has(key)) time = theirs->at(key).as_seconds();
  };
  copy("each_launch", into.each_launch);
  copy("each_further_launch", into.each_further_launch);
  copy("each_layer", into.each_layer);
  copy("each_experts_layer", into.each_experts_layer);
  copy("each_training_launch", into.each_training_launch);
  if (const auto training = theirs->find_object("training")) into.training = read_training(*training);
}

void refuse_other_keys(const JsonValue& host) {
  host.refuse_unknown_keys({"each_launch", "each_further_launch", "each_layer", "each_experts_layer", "narrow_launch",
                            "each_training_launch", "training", "each_step", "each_prompt", "each_sequence",
                            "borrowed_from", "calls_each_hand_over", "training_hosts", "within", "source"});
}

HostTime::Hosts read_training_hosts(const JsonValue& v) {
  v.refuse_unknown_keys({"quick", "slow", "apart"});
  HostTime::Hosts hosts{v.at("quick").as_number(), v.at("slow").as_number(), v.at("apart").as_number()};
  if (!(hosts.quick > 0 && hosts.quick <= 1)) v.at("quick").fail("expected a factor above 0, at most 1");
  if (!(hosts.slow >= 1 && hosts.slow <= 100)) v.at("slow").fail("expected a factor from 1 to 100");
  if (!(hosts.apart >= 0 && hosts.apart <= 1)) v.at("apart").fail("expected a standard deviation from 0 to 1");
  return hosts;
}

}  // namespace

HostTime read_host(const JsonValue& root) {
  HostTime out;
  const auto host = root.find_object("host");
  if (!host) return out;
  refuse_other_keys(*host);
  bool any = host->has("borrowed_from");
  if (any) borrow_host(*host, out);
  else if (host->has("within")) host->at("within").fail("expected borrowed_from beside it");
  const auto read = [&](const char* key, Seconds& into) {
    if (!host->has(key)) return;
    into = host->at(key).as_seconds();
    if (into <= Seconds{}) host->at(key).fail("expected a time above 0");
    any = true;
  };
  read("each_launch", out.each_launch);
  read("each_further_launch", out.each_further_launch);
  read("each_layer", out.each_layer);
  read("each_experts_layer", out.each_experts_layer);
  read("narrow_launch", out.narrow_launch);
  const bool beside = out.each_further_launch > Seconds{} || out.each_layer > Seconds{} ||
                      out.each_experts_layer > Seconds{} || out.narrow_launch > Seconds{};
  if (beside && !(out.each_launch > Seconds{})) host->fail("expected each_launch");
  read("each_training_launch", out.each_training_launch);
  if (const auto training = host->find_object("training")) {
    if (host->has("each_training_launch")) training->fail("expected no each_training_launch beside it");
    out.training = read_training(*training);
    any = true;
  }
  if (const auto hosts = host->find_object("training_hosts")) {
    if (!host->has("each_training_launch") && !host->has("training")) hosts->fail("expected training");
    out.training_hosts = read_training_hosts(*hosts);
  }
  read("each_step", out.each_step);
  read("each_prompt", out.each_prompt);
  read("each_sequence", out.each_sequence);
  if (!any) {
    host->fail(
        "expected one of each_launch, each_training_launch, training, each_step, each_prompt, each_sequence, "
        "borrowed_from");
  }
  if (host->has("calls_each_hand_over")) {
    const JsonValue calls = host->at("calls_each_hand_over");
    out.calls_each_hand_over = calls.as_number();
    if (!(out.calls_each_hand_over > 0 && out.calls_each_hand_over <= 1000)) calls.fail("expected a number up to 1000");
    if (!(out.each_launch > Seconds{})) calls.fail("expected each_launch or borrowed_from beside it");
  }
  (void)host->at("source").as_string();
  return out;
}

}  // namespace plumbline
