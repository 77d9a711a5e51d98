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

/// What it takes for parameters and layers where it trains, which go with each_training_launch.
struct OfTensors {
  const char* key;
  Seconds HostTime::*time;
};
constexpr std::array<OfTensors, 6> kOfTensors{{{"each_sharded_unit", &HostTime::each_sharded_unit},
                                               {"each_sharded_tensor", &HostTime::each_sharded_tensor},
                                               {"each_summed_tensor", &HostTime::each_summed_tensor},
                                               {"each_updated_tensor", &HostTime::each_updated_tensor},
                                               {"each_updated_shard", &HostTime::each_updated_shard},
                                               {"each_recomputed_layer", &HostTime::each_recomputed_layer}}};

constexpr const char* kStacks = "stacks";  // of the data folder

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
  for (const OfTensors& of : kOfTensors) copy(of.key, into.*of.time);
}

void refuse_other_keys(const JsonValue& host) {
  host.refuse_unknown_keys({"each_launch",
                            "each_further_launch",
                            "each_layer",
                            "each_experts_layer",
                            "narrow_launch",
                            "each_training_launch",
                            "narrow_launch_of_training",
                            "each_sharded_unit",
                            "each_sharded_tensor",
                            "each_summed_tensor",
                            "each_updated_tensor",
                            "each_updated_shard",
                            "each_recomputed_layer",
                            "each_step",
                            "each_prompt",
                            "each_sequence",
                            "borrowed_from",
                            "calls_each_hand_over",
                            "training_hosts",
                            "within",
                            "source"});
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
  read("narrow_launch_of_training", out.narrow_launch_of_training);
  if (out.narrow_launch_of_training > Seconds{} && !(out.narrow_launch > Seconds{}))
    host->fail("expected narrow_launch");
  for (const OfTensors& of : kOfTensors) {
    read(of.key, out.*of.time);
    if (host->has(of.key) && !host->has("each_training_launch")) host->at(of.key).fail("expected each_training_launch");
  }
  if (const auto hosts = host->find_object("training_hosts")) {
    if (!host->has("each_training_launch")) hosts->fail("expected each_training_launch");
    out.training_hosts = read_training_hosts(*hosts);
  }
  read("each_step", out.each_step);
  read("each_prompt", out.each_prompt);
  read("each_sequence", out.each_sequence);
  if (!any) {
    host->fail(
        "expected one of each_launch, each_training_launch, each_step, each_prompt, each_sequence, borrowed_from");
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
