#include "ops/plan/kernel_resources.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/csv.hpp"

namespace plumbline {
namespace {

/// The kinds that need whole rows, and their names in kernels/rows/rowwise.cu.
constexpr std::pair<RowwiseKind, std::string_view> kRowKinds[] = {
    {RowwiseKind::layernorm, "LayerNorm"}, {RowwiseKind::rmsnorm, "RmsNorm"}, {RowwiseKind::softmax, "Softmax"},
    {RowwiseKind::sum_rows, "SumRows"},    {RowwiseKind::argmax, "ArgMax"},   {RowwiseKind::quantize, "Quantize"}};
/// By ChainOp: their names in kernels/chain/attention_chain.cu.
constexpr std::string_view kChainNames[] = {"Forward", "Backward<1>", "Backward<0>", "NormBackward"};

std::size_t index_of(RowwiseKind kind) {
  for (std::size_t i = 0; i < std::size(kRowKinds); ++i) {
    if (kRowKinds[i].first == kind) return i;
  }
  throw std::logic_error(std::string(name(kind)) + ": not an operator on whole rows");
}

/// Those of kernels/chain/attention_chain_flat.cu, which carry the kind itself.
constexpr RowwiseKind kAttentionFlat[] = {RowwiseKind::scale, RowwiseKind::mask, RowwiseKind::dropout,
                                          RowwiseKind::dropout_backward};

/// "row_held<Softmax, 32, 1>"
std::string kernel(std::string_view function, std::string_view type, std::initializer_list<int> arguments) {
  std::string out = std::string(function) + "<" + std::string(type);
  for (const int argument : arguments) {
    if (out.back() != '<') out += ", ";
    out += std::to_string(argument);
  }
  return out + ">";
}

}  // namespace

/// The file by kernel.
class RowResources::Table {
 public:
  Table(std::string_view csv, const std::string& place) : place_(place) {
    CsvReader reader(csv, place);
    const CsvHeader header(reader);
    const std::size_t kernel = header.require("kernel"), registers = header.require("registers"),
                      shared = header.require("shared_B"), stack = header.require("stack_B");
    while (reader.next()) {
      const auto fields = reader.fields();
      if (fields.size() != header.size()) fail(reader.line(), "expected " + std::to_string(header.size()) + " cells");
      const auto number = [&](std::size_t column) {
        std::int64_t value = -1;
        const std::string_view text = fields[column];
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size() || value < 0) {
          fail(reader.line(), header.names()[column] + ": expected a whole number, found '" + std::string(text) + "'");
        }
        return value;
      };
      const KernelResources found{number(registers), number(shared), number(stack)};
      if (!kernels_.emplace(fields[kernel], found).second) {
        fail(reader.line(), "'" + std::string(fields[kernel]) + "' stands there twice");
      }
    }
  }

  const KernelResources& at(const std::string& name) const {
    const auto found = kernels_.find(name);
    if (found != kernels_.end()) return found->second;
    std::vector<std::string> known;
    known.reserve(kernels_.size());
    for (const auto& [key, value] : kernels_) known.push_back(key);
    throw BadInput(place_ + ": no kernel '" + name + "'" + did_you_mean(name, known));
  }

 private:
  [[noreturn]] void fail(std::size_t line, const std::string& what) const {
    throw BadInput(place_ + ":" + std::to_string(line) + ": " + what);
  }

  std::string place_;
  std::map<std::string, KernelResources, std::less<>> kernels_;
};

RowResources::RowResources(std::string_view csv, const std::string& place) {
  const Table table(csv, place);
  read_rows(table);
  read_selections(table);
  read_chains(table);
  read_others(table);
}

void RowResources::read_rows(const Table& table) {
  for (std::size_t k = 0; k < std::size(kRowKinds); ++k) {
    const auto [kind, type] = kRowKinds[k];
    for (const int few : {0, 1}) {
      const auto menu = entries(few == 1 ? RowMenu::few : row_menu_of(kind));
      for (std::size_t i = 0; i < menu.size(); ++i) {
        const RowTile& h = menu[i];
        for (const int whole : {0, 1}) {
          rows_[k][static_cast<std::size_t>(few)][i][static_cast<std::size_t>(whole)] =
              table.at(h.walks ? kernel("row_walked", type, {h.threads, h.vecs, whole, min_ctas_per_sm(h)})
                               : kernel("row_held", type,
                                        {h.threads, h.vecs, h.clustered ? 1 : 0, whole, few, min_ctas_per_sm(h)}));
        }
      }
    }
  }
}

void RowResources::read_selections(const Table& table) {
  for (std::size_t i = 0; i < std::size(kTopKMenu); ++i) {
    const RowTile& h = kTopKMenu[i];
    for (const int softmax : {0, 1}) {
      for (const int whole : {0, 1}) {
        selections_[i][static_cast<std::size_t>(softmax)][static_cast<std::size_t>(whole)] =
            table.at(kernel("top_of_row", "", {h.threads, h.vecs, h.clustered ? 1 : 0, whole, softmax}));
      }
    }
  }
}

void RowResources::read_chains(const Table& table) {
  for (std::size_t op = 0; op < kChainOps; ++op) {
    for (std::size_t i = 0; i < std::size(kChainMenu); ++i) {
      const ChainTile& h = kChainMenu[i];
      for (const ChainFit fit : {ChainFit::ragged, ChainFit::whole, ChainFit::full}) {
        if (fit == ChainFit::full && !chain_fills(static_cast<ChainOp>(op), h.lanes, h.groups)) continue;
        chains_[op][i][static_cast<std::size_t>(fit)] =
            table.at(kernel("chain_held", kChainNames[op], {h.lanes, h.groups, static_cast<int>(fit)}));
      }
    }
    for (const int whole : {0, 1}) {
      walked_[op][static_cast<std::size_t>(whole)] =
          table.at(kernel("chain_walked", kChainNames[op], {kChainWalkThreads, whole}));
    }
  }
}

void RowResources::read_others(const Table& table) {
  const auto tile = [&](const char* text, int in, int out) { return table.at(kernel("transpose", text, {in, out})); };
  for (const int in : {0, 1}) {
    for (const int out : {0, 1}) {
      transposes_[static_cast<std::size_t>(in)][static_cast<std::size_t>(out)] =
          tile(in == 1 && out == 1 ? "Tile<128, 128, 512>" : "Tile<64, 128, 256>", in, out);
    }
  }
  for (std::size_t i = 0; i < std::size(kAttentionFlat); ++i) {
    const int kind = static_cast<int>(kAttentionFlat[i]);
    attention_flat_[i] = {table.at(kernel("chain_flat", "", {kind, 0})), table.at(kernel("chain_flat", "", {kind, 1}))};
  }
  rope_ = {table.at("rope<0, TurnInPlace>"), table.at("rope<1, TurnInPlace>")};
  gather_ = {table.at("gather_rows<1>"), table.at("gather_rows<4>")};
  cumsum_ = {table.at("cumsum<__nv_bfloat16, 256, 12, 3, 100>"), table.at("cumsum<float, 256, 12, 3, 100>")};
  sum_all_ = {table.at("sum_all<__nv_bfloat16>"), table.at("sum_all<float>")};
}

const KernelResources& RowResources::row(RowwiseKind kind, const RowChoice& chosen, bool whole) const {
  const std::size_t menu = chosen.menu == RowMenu::few ? 1 : 0;
  return rows_[index_of(kind)][menu][static_cast<std::size_t>(chosen.choice.entry)][whole ? 1 : 0];
}

const KernelResources& RowResources::selection(std::size_t entry, bool whole, bool softmax) const {
  return selections_[entry][softmax ? 1 : 0][whole ? 1 : 0];
}

const KernelResources& RowResources::chain(ChainOp op, std::size_t entry, ChainFit fit) const {
  return chains_[static_cast<std::size_t>(op)][entry][static_cast<std::size_t>(fit)];
}

const KernelResources& RowResources::chain_walked(ChainOp op, bool whole) const {
  return walked_[static_cast<std::size_t>(op)][whole ? 1 : 0];
}

const KernelResources& RowResources::attention_flat(RowwiseKind kind, bool whole) const {
  const auto* found = std::find(std::begin(kAttentionFlat), std::end(kAttentionFlat), kind);
  if (found == std::end(kAttentionFlat)) throw std::logic_error(std::string(name(kind)) + ": not of attention's");
  return attention_flat_[static_cast<std::size_t>(found - kAttentionFlat)][whole ? 1 : 0];
}

const KernelResources& RowResources::transpose(bool whole_in, bool whole_out) const {
  return transposes_[whole_in ? 1 : 0][whole_out ? 1 : 0];
}

}  // namespace plumbline
