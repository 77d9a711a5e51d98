// `validate run --gpus N`: collectives, links, copies and the disk of the machine at hand.
#pragma once

#include "validate/cli/compare.hpp"
#include "validate/probe/links.hpp"

namespace plumbline {

struct LinksRequest {
  LinkOptions links;
  AskedCard card;
  AskedReport report;
  StackChoice stack = StackChoice("own");
};
/// Measures into the file of `links`, then holds our own collectives in it against their predictions; nothing where it has
/// none. Throws BadInput without a file. not_modelled when a case had a fault, or a section no end.
ExitCode run_links(LinksRequest request, const MeasureLinks& measure, std::ostream& out, std::ostream& messages);

}  // namespace plumbline
