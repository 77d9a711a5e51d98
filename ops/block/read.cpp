#include "ops/block/read.hpp"

#include <algorithm>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/block/lines.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;  // as config.json's (ops/config)

/// Sizes of a library's mixer from an object; what the object does not have stays as it is.
class SizesFromObject final : public MixerSizes {
 public:
  using MixerSizes::whole;
  using PartReader = std::function<LayerMixer(const JsonValue&)>;
  SizesFromObject(const JsonValue& object, const Scope& scope, PartReader part)
      : object_(object), scope_(scope), part_(std::move(part)) {}

  void whole(const char* name, std::int64_t& value) override {
    if (const auto found = find(name)) value = scope_.whole(*found, 0, kLargestSize);
  }
  void flag(const char* name, bool& value) override {
    if (const auto found = find(name)) value = scope_.flag(*found);
  }
  void type(const char* name, DType& value) override {
    const auto found = find(name);
    if (!found) return;
    const auto type = parse_dtype(found->as_string());
    if (!type) found->fail("expected a data type");
    value = *type;
  }
  void part(const char* name, LayerMixer& value) override {
    known_.emplace_back(name);
    value = part_(object_.at(name));
  }
  /// Throws BadInput for a member that is no size.
  void refuse_others() const {
    for (const std::string& key : object_.keys()) {
      if (key == "use" || key == "segment" || key == "kind" ||
          std::find(known_.begin(), known_.end(), key) != known_.end())
        continue;
      object_.fail("unknown size '" + key.substr(0, 64) + "'" + did_you_mean(key, known_));
    }
  }

 private:
  std::optional<JsonValue> find(const char* name) {
    known_.emplace_back(name);
    return object_.find(name);
  }
  const JsonValue& object_;
  const Scope& scope_;
  PartReader part_;
  std::vector<std::string> known_;
};

/// Heads that ranks cannot be divided among, and sizes that nothing can be made of.
void check_made(const Mixer& mixer, const JsonValue& use) {
  const double params = mixer.params(1024).total();
  if (!(params > 0)) use.fail("'" + std::string(mixer.block()) + "' has no weights: expected its sizes");
}

void read_cache(const JsonValue& list, block::LineReader& reader, BlockText& text) {
  for (const JsonValue& each : list.elements()) {
    each.refuse_unknown_keys({"elements", "type", "about"});
    BlockCache cache;
    cache.elements = reader.expression(each.at("elements"));
    if (const auto type = each.find("type")) cache.type = reader.type_word(*type);
    text.cache.push_back(cache);
  }
  if (text.cache.size() > 64) list.fail("expected at most 64 things that are kept");
}

void read_rest(const JsonValue& definition, block::LineReader& reader, BlockText& text) {
  if (const auto cache = definition.find_list("cache")) read_cache(*cache, reader, text);
  if (const auto heads = definition.find("heads")) text.heads = text.scope.whole(*heads, 0, kLargestSize);
  if (const auto splits = definition.find("splits_context")) text.splits_context = text.scope.flag(*splits);
  if (const auto live = definition.find("live")) text.live = reader.expression(*live);
  if (const auto stored = definition.find("stored")) text.stored = reader.expression(*stored);
  if (const auto weights = definition.find_object("weights")) {
    weights->refuse_unknown_keys({"matrices", "vectors"});
    if (const auto matrices = weights->find("matrices")) text.matrices = reader.expression(*matrices);
    if (const auto vectors = weights->find("vectors")) text.vectors = reader.expression(*vectors);
  }
}

}  // namespace

std::optional<JsonValue> BlockLibrary::definition_of(const std::string& name) {
  if (own_) {
    if (const auto own = own_->find(name)) return own;
  }
  const bool safe = std::all_of(name.begin(), name.end(),
                                [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
  if (!safe || name.empty() || name.size() > 64) return std::nullopt;
  auto shipped = shipped_.find(name);
  if (shipped == shipped_.end()) {
    const std::vector<std::string> all = json_file_names(data_folder() + "/blocks");
    if (std::find(all.begin(), all.end(), name) == all.end()) return std::nullopt;
    shipped = shipped_.emplace(name, JsonDocument::read_file(data_folder() + "/blocks/" + name + ".json")).first;
  }
  return shipped->second.root();
}

std::vector<std::string> BlockLibrary::names() const {
  std::vector<std::string> all = mixer_blocks();
  const auto add = [&](const std::vector<std::string>& more) { all.insert(all.end(), more.begin(), more.end()); };
  add(json_file_names(data_folder() + "/blocks"));
  if (own_) add(own_->keys());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

LayerMixer BlockLibrary::read(const JsonValue& part, const Scope& scope, const std::string& name) {
  if (!part.is_object()) part.fail("expected an object with \"use\" or \"ops\"");
  if (++depth_ > kDeepest) part.fail("expected at most " + std::to_string(kDeepest) + " blocks inside one another");
  LayerMixer mixer = part.has("use") ? used(part, scope) : written(part, scope, name, {});
  --depth_;
  return mixer;
}

LayerMixer BlockLibrary::used(const JsonValue& use, const Scope& scope) {
  const std::string name = use.at("use").as_string();
  const std::string segment = use.find_string("segment").value_or("");
  if (const auto definition = definition_of(name)) {
    Scope given, inner;
    for (const std::string& key : use.keys()) {
      if (key == "use" || key == "segment" || key == "kind") continue;
      given.add(key, scope.number(use.at(key)), use);
    }
    for (std::size_t i = 0; i < scope.names().size(); ++i) {
      if (scope.names()[i] == "hidden") inner.add("hidden", scope.values()[i], use);
    }
    if (const auto parameters = definition->find("parameters")) inner.add_all(*parameters, given);
    for (const std::string& key : given.names()) {
      if (!inner.has(key)) use.fail("'" + name + "' has no parameter '" + key + "'" + did_you_mean(key, inner.names()));
    }
    const bool shipped = !own_ || !own_->has(name);
    return written(*definition, std::move(inner), name, {segment, use.find_string("kind").value_or(""), shipped});
  }
  return library_mixer(use, scope);
}

LayerMixer BlockLibrary::library_mixer(const JsonValue& use, const Scope& scope) {
  const std::string name = use.at("use").as_string();
  const std::shared_ptr<Mixer> mixer = fresh_mixer(name);
  if (!mixer) use.at("use").fail("no block is called '" + name.substr(0, 64) + "'" + did_you_mean(name, names()));
  SizesFromObject sizes(use, scope, [&](const JsonValue& part) { return read(part, scope, name); });
  mixer->sizes(sizes);
  sizes.refuse_others();
  check_made(*mixer, use);
  return LayerMixer(mixer);
}

LayerMixer BlockLibrary::written(const JsonValue& definition, Scope scope, const std::string& name,
                                 const Words& words) {
  definition.refuse_unknown_keys({"schema", "about", "source", "parameters", "ops", "cache", "heads", "live", "stored",
                                  "weights", "segment", "kind", "let", "splits_context"});
  auto text = std::make_shared<BlockText>();
  text->name = name.substr(0, 64);
  text->segment = words.segment.empty() ? definition.find_string("segment").value_or("") : words.segment;
  text->kind = words.kind.empty() ? definition.find_string("kind").value_or("") : words.kind;
  for (std::size_t i = 0; words.shipped && i < scope.names().size(); ++i) {
    if (scope.names()[i] != "hidden") text->given.emplace_back(scope.names()[i], scope.values()[i]);
  }
  text->scope = std::move(scope);
  block::LineReader reader(*text, [&](const JsonValue& use) { return read(use, text->scope, name); });
  if (const auto let = definition.find_object("let")) reader.let(*let);
  const JsonValue ops = definition.at("ops");
  const std::vector<JsonValue> lines = ops.elements();
  lines_ += lines.size();
  if (lines.empty()) ops.fail("expected an operator at least");
  if (lines_ > kMostLines) ops.fail("expected at most " + std::to_string(kMostLines) + " operators in all");
  text->lines.reserve(lines.size());
  for (const JsonValue& line : lines) reader.line(line);
  read_rest(definition, reader, *text);
  return LayerMixer(std::shared_ptr<const Mixer>(std::make_shared<BlockSpec>(std::move(text))));
}

}  // namespace plumbline
