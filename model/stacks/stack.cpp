#include "model/stacks/stack.hpp"

#include <algorithm>
#include <array>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "model/stacks/providers.hpp"
#include "model/stacks/read_host.hpp"
#include "model/stacks/read_rewrites.hpp"
#include "model/words.hpp"
#include "ops/rewrite/rewrite.hpp"
#include "ops/table/table.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

/// What --attention replaces.
constexpr std::array<std::string_view, 2> kSoftmaxAttention{"attention_prefill", "attention_decode"};

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<std::string> ops_of(const Stack::Entry& entry) {
  if (!entry.ops.empty()) return entry.ops;
  const auto all = entry.provider->ops();
  return {all.begin(), all.end()};
}

/// Of a provider with kernels of some operators only: ours run what they can of any.
bool runs_attention(const Stack::Entry& entry) {
  const std::vector<std::string> ops = ops_of(entry);
  if (entry.provider->hands_on()) return false;
  return contains(ops, kSoftmaxAttention[0]) || contains(ops, kSoftmaxAttention[1]);
}

/// Of a provider that takes some cards' attention and leaves the rest to the next one.
bool takes_attention_over(const Stack::Entry& entry) {
  const std::vector<std::string> ops = ops_of(entry);
  return entry.provider->hands_on() && (contains(ops, kSoftmaxAttention[0]) || contains(ops, kSoftmaxAttention[1]));
}

const Provider& provider_of(const JsonValue& value) {
  const std::string name = value.as_string();
  const Provider* provider = find_provider(name);
  if (provider == nullptr) {
    value.fail("expected a kernel provider, found '" + name + "'" + did_you_mean(name, provider_names()));
  }
  return *provider;
}

std::vector<std::string> ops_in(const JsonValue& list, const Provider& provider) {
  std::vector<std::string> ops;
  for (const JsonValue& value : list.elements()) {
    const std::string name = value.as_string();
    if (find_operator(name) == nullptr) {
      value.fail("expected an operator, found '" + name + "'" + did_you_mean(name, op_names()));
    }
    const auto has = provider.ops();
    if (!has.empty() && !contains(has, name)) {
      value.fail("expected an operator that " + std::string(provider.name()) + " has kernels for, found '" + name +
                 "'");
    }
    if (contains(ops, name)) value.fail("expected each operator once, found '" + name + "' again");
    ops.push_back(name);
  }
  if (ops.empty()) list.fail("expected one operator at least");
  return ops;
}

Stack::Entry read_entry(const JsonValue& value) {
  value.refuse_unknown_keys({"provider", "ops", "stands_in"});
  Stack::Entry entry;
  entry.provider = &provider_of(value.at("provider"));
  if (const auto ops = value.find("ops")) entry.ops = ops_in(*ops, *entry.provider);
  if (const auto stands_in = value.find("stands_in")) entry.stands_in = stands_in->as_bool();
  return entry;
}

template <class E, std::size_t N>
E word_in(const JsonValue& value, const std::array<Word<E>, N>& words) {
  const std::string text = value.as_string();
  std::vector<std::string> known;
  for (const Word<E>& word : words) {
    if (word.text == text) return word.value;
    known.emplace_back(word.text);
  }
  value.fail("expected one of " + joined(known) + ", found '" + text + "'" + did_you_mean(text, known));
}

/// Numbers of the stack's own, so that they say where they come from.
void read_collective_call(const JsonValue& root, Stack& stack) {
  const auto call = root.find_object("collective_call");
  if (!call) return;
  call->refuse_unknown_keys({"fixed", "more_than_two", "source"});
  const auto time = [&call](const char* key) {
    const Seconds found = call->at(key).as_seconds();
    if (found < Seconds()) call->at(key).fail("expected a time that is not negative, found " + call->at(key).dump());
    return found;
  };
  stack.collective_call = {time("fixed"), time("more_than_two")};
  (void)call->at("source").as_string();
}

void read_token_exchange(const JsonValue& root, Stack& stack) {
  const auto exchange = root.find_object("token_exchange");
  if (!exchange) return;
  exchange->refuse_unknown_keys({"sms", "source"});
  stack.exchange_sms = exchange->at("sms").as_integer();
  if (stack.exchange_sms < 1) exchange->at("sms").fail("expected 1 SM at least, found " + exchange->at("sms").dump());
  (void)exchange->at("source").as_string();
}

void read_prefill_at_once(const JsonValue& root, Stack& stack) {
  const auto at_once = root.find_object("prefill_at_once");
  if (!at_once) return;
  at_once->refuse_unknown_keys({"tokens", "source"});
  stack.prefill_at_once = at_once->at("tokens").as_integer();
  if (stack.prefill_at_once < 1)
    at_once->at("tokens").fail("expected 1 token at least, found " + at_once->at("tokens").dump());
  (void)at_once->at("source").as_string();
}

void read_scores_kept(const JsonValue& root, Stack& stack) {
  const auto kept = root.find_object("scores_kept");
  if (!kept) return;
  kept->refuse_unknown_keys({"bytes", "source"});
  stack.score_kept = kept->at("bytes").as_bytes();
  if (stack.score_kept <= Bytes{}) kept->at("bytes").fail("expected more than 0 bytes");
  (void)kept->at("source").as_string();
}

void read_gap(const JsonValue& root, Stack& stack) {
  const auto gap = root.find_object("gap_in_graph");
  if (!gap) return;
  gap->refuse_unknown_keys({"time", "source"});
  stack.gap_in_graph = gap->at("time").as_seconds();
  if (stack.gap_in_graph <= Seconds{}) gap->at("time").fail("expected a time above 0");
  (void)gap->at("source").as_string();
}

/// What training alone has, and behind it the forward pass's launches of inference.
std::shared_ptr<const Rewrites> training_rewrites(const JsonValue& root, const Stack& stack) {
  const std::shared_ptr<const Rewrites> own = read_rewrites(root, "training_launches");
  if (!own || !stack.rewrites) return own;
  auto all = std::make_shared<Rewrites>(*own);
  all->rules.insert(all->rules.end(), stack.rewrites->rules.begin(), stack.rewrites->rules.end());
  return all;
}

}  // namespace

KernelSet Stack::kernels() const { return providers.front().provider->set(); }

Stack parse_stack(const std::string& text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"schema",
                            "name",
                            "title",
                            "note",
                            "providers",
                            "prefill_appends",
                            "fusion",
                            "runtime",
                            "overlap",
                            "collective_call",
                            "fused_attention",
                            "unfused_models",
                            "written_out_attention",
                            "host",
                            "launches",
                            "training_launches",
                            "gap_in_graph",
                            "token_exchange",
                            "prefill_at_once",
                            "scores_kept",
                            "rounds_routed_rows",
                            "attention_rotates"});
  if (root.at("schema").as_integer() != 1) root.at("schema").fail("expected 1");
  Stack stack;
  stack.name = root.at("name").as_string();
  stack.title = root.at("title").as_string();
  const JsonValue list = root.at("providers");
  for (const JsonValue& value : list.elements()) {
    Stack::Entry entry = read_entry(value);
    for (const Stack::Entry& before : stack.providers) {
      if (before.provider == entry.provider) {
        value.fail("expected each provider once, found '" + std::string(entry.provider->name()) + "' again");
      }
    }
    stack.providers.push_back(std::move(entry));
  }
  if (stack.providers.empty()) list.fail("expected one provider at least");
  stack.prefill_appends = root.at("prefill_appends").as_bool();
  stack.fusion = word_in(root.at("fusion"), kFusionWords);
  stack.runtime = word_in(root.at("runtime"), kRuntimeWords);
  if (const auto overlap = root.find("overlap")) stack.overlap = word_in(*overlap, kOverlapWords);
  read_collective_call(root, stack);
  read_token_exchange(root, stack);
  if (const auto fused = root.find_bool("fused_attention")) stack.fused_attention = *fused;
  if (const auto unfused = root.find_list("unfused_models")) {
    for (const JsonValue& each : unfused->elements()) stack.unfused_models.push_back(each.as_string());
  }
  if (const auto written = root.find_bool("written_out_attention")) stack.written_out_attention = *written;
  if (const auto rotates = root.find_bool("attention_rotates")) stack.attention_rotates = *rotates;
  if (const auto rounds = root.find_bool("rounds_routed_rows")) stack.rounds_routed_rows = *rounds;
  stack.host = read_host(root);
  read_gap(root, stack);
  read_prefill_at_once(root, stack);
  read_scores_kept(root, stack);
  stack.rewrites = read_rewrites(root);
  stack.training = training_rewrites(root, stack);
  return stack;
}

Stack with_kernels(const Stack& stack, const Stack& kernels) {
  Stack out = kernels;
  out.fusion = stack.fusion;
  out.runtime = stack.runtime;
  out.overlap = stack.overlap;
  out.fused_attention = stack.fused_attention;
  out.unfused_models = stack.unfused_models;
  out.written_out_attention = stack.written_out_attention;
  out.score_kept = stack.score_kept;
  out.rewrites = stack.rewrites;
  out.training = stack.training;
  out.host = stack.host;
  out.prefill_at_once = stack.prefill_at_once;
  for (const Stack::Entry& entry : stack.providers) {
    const bool replaceable = std::any_of(out.providers.begin(), out.providers.end(), runs_attention);
    if (replaceable && runs_attention(entry)) return with_attention(out, entry.provider->name());
  }
  return out;
}

/// Attention of any phase, on any card: those of a training stack alone are no answer to what serving asks.
bool runs_all_attention(const Provider* provider) {
  if (provider->hands_on()) return false;
  const std::span<const std::string_view> ops = provider->ops();
  return std::all_of(kSoftmaxAttention.begin(), kSoftmaxAttention.end(),
                     [&](std::string_view op) { return std::find(ops.begin(), ops.end(), op) != ops.end(); });
}

std::vector<std::string> attention_words() {
  std::vector<std::string> words;
  for (const Provider* each : providers()) {
    if (runs_all_attention(each)) words.emplace_back(each->word());
  }
  return words;
}

namespace {

const Provider* attention_by(std::string_view name) {
  for (const Provider* each : providers()) {
    if (runs_all_attention(each) && (each->name() == name || each->word() == name)) return each;
  }
  return nullptr;
}

}  // namespace

std::string_view attention_provider(std::string_view word) {
  const Provider* provider = attention_by(word);
  return provider == nullptr ? std::string_view() : provider->name();
}

Stack with_attention(const Stack& stack, std::string_view name) {
  const Provider* provider = attention_by(name);
  const std::vector<std::string> known = attention_words();
  if (provider == nullptr) {
    throw BadInput("attention: expected one of " + joined(known) + "; found '" + std::string(name) + "'" +
                   did_you_mean(name, known));
  }
  const auto first = std::find_if(stack.providers.begin(), stack.providers.end(), runs_attention);
  const bool handed_over = std::any_of(stack.providers.begin(), stack.providers.end(), takes_attention_over);
  if (first != stack.providers.end() && first->provider == provider && !handed_over) return stack;
  Stack out = stack;
  out.providers.clear();
  bool placed = false;
  for (Stack::Entry entry : stack.providers) {
    if (runs_attention(entry)) {
      if (!placed) {
        out.providers.push_back({provider, {kSoftmaxAttention.begin(), kSoftmaxAttention.end()}, entry.stands_in});
      }
      placed = true;
    }
    if (runs_attention(entry) || entry.provider->hands_on()) {
      entry.ops = ops_of(entry);
      std::erase_if(entry.ops, [](const std::string& op) { return contains(kSoftmaxAttention, op); });
      if (entry.ops.empty()) continue;
    }
    out.providers.push_back(std::move(entry));
  }
  return out;
}

}  // namespace plumbline
