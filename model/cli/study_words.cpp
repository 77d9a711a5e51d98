#include "model/cli/study_words.hpp"

#include <algorithm>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/question/question.hpp"
#include "model/study/points.hpp"

namespace plumbline::cli {
namespace {

class WordReader {
 public:
  explicit WordReader(const std::vector<std::string>& words) : words_(words) {}

  Study read() {
    if (words_.empty()) refuse_start("nothing");
    const std::string& first = words_.front();
    if (first == "op") {
      study_.of_op = true;
    } else if (first != "llm") {
      if (!looks_like_path(first)) refuse_start("'" + first + "'" + did_you_mean(first, {"llm", "op"}));
      study_ = parse_study(read_text_file(first), first);
    }
    at_ = 1;
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (word.starts_with("--")) take_flag(word);
      else take_operand(word);
    }
    return std::move(study_);
  }

 private:
  [[noreturn]] static void refuse_start(const std::string& found) {
    throw BadInput("expected llm, op or a study's file first, found " + found);
  }

  /// "--batch 1,2", "--batch=1,2", "--sp".
  void take_flag(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const QuestionKey* key = find(name);
    if (equals != std::string::npos) return take(name, word.substr(equals + 1));
    if (key != nullptr && key->toggle) return take(name, "1");
    if (at_ == words_.size() || words_[at_].starts_with("--")) throw BadInput(word + ": expected a value, found none");
    take(name, words_[at_++]);
  }

  const QuestionKey* find(const std::string& name) const {
    std::vector<std::string> known{"set"};
    for (const QuestionKey& key : question_keys()) {
      if (!(study_.of_op ? key.of_op : key.of_llm)) continue;
      if (key.name == name) return &key;
      known.emplace_back(key.name);
    }
    if (name == "set") return nullptr;
    throw BadInput("unknown option '--" + name + "'" + did_you_mean(name, known));
  }

  void take(const std::string& name, const std::string& text) {
    if (name != "set") return put(name, text);
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw BadInput("--set: expected PATH=VALUE such as memory.bandwidth=6TB/s, found '" + text + "'");
    }
    put("set." + text.substr(0, equals), text.substr(equals + 1));
  }

  void take_operand(const std::string& word) {
    const std::size_t equals = word.find('=');
    if (study_.of_op && equals != std::string::npos && equals > 0) {
      return put(word.substr(0, equals), word.substr(equals + 1));
    }
    const bool named =
        std::any_of(study_.base.begin(), study_.base.end(), [](const StudySetting& each) { return each.name == "op"; });
    if (!study_.of_op || named) throw BadInput("unexpected argument '" + word + "'");
    study_.base.push_back({"op", word});
  }

  /// One value is the base's, several are an axis; in place of what a file has by that name.
  void put(const std::string& name, const std::string& text) {
    if (text.empty()) throw BadInput(place_of_setting(name) + ": expected a value, found nothing");
    StudyAxis values;
    values.names = {name};
    for (std::string& value : expand_list(place_of_setting(name), text)) values.values.push_back({std::move(value)});
    std::erase_if(study_.base, [&](const StudySetting& each) { return each.name == name; });
    const auto known = std::find_if(study_.axes.begin(), study_.axes.end(),
                                    [&](const StudyAxis& axis) { return axis.names == values.names; });
    if (values.values.size() == 1) {
      if (known != study_.axes.end()) study_.axes.erase(known);
      study_.base.push_back({name, values.values.front().front()});
    } else if (known != study_.axes.end()) {
      *known = std::move(values);
    } else {
      study_.axes.push_back(std::move(values));
    }
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  Study study_;
};

}  // namespace

Study study_of_words(const std::vector<std::string>& words) { return WordReader(words).read(); }

std::vector<std::string> names_of_list(const std::string& flag, const std::string& text) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t comma = text.find(',', begin);
    names.push_back(text.substr(begin, comma == std::string::npos ? comma : comma - begin));
    if (names.back().empty()) throw BadInput(flag + ": expected names between commas, found '" + text + "'");
    if (comma == std::string::npos) return names;
    begin = comma + 1;
  }
}

}  // namespace plumbline::cli
