// What a collective of NCCL takes by an algorithm that has been chosen: bytes on the wire, at which rate, and what nothing
// hides.
//
// A ring passes `steps` messages of N / n bytes on, one after the other, and copies some in and out at its ends: with x
// the time that N / n bytes take at the bandwidth that the protocol reaches on the wire,
//   time = fixed + steps * hop  combined with  steps * x  + ends * x + (first part of a message at one channel's rate).
// With LL128 a warp passes on its lines as soon as they have come, so that the latency of a hop and its bytes overlap in part
// (a p-norm, as of a kernel's resources). Simple waits for whole parts: they add up. LL goes by lines: see ring().
#pragma once

#include "model/engine/rates.hpp"
#include "model/stacks/nccl/tuner.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline::nccl {

/// What the wire carries for a rank, and the time of it that overlaps with nothing.
struct Exchange {
  Bytes link;
  Bandwidth rate;
  Seconds waits;  ///< hops, and what a channel's first part takes
  Bytes
      staged;  ///< of `link`: by way of NCCL's own buffers, which a receiver's channel reads (src/device/prims_simple.h)
};

/// What the ranks' parts are made of.
struct Elements {
  double bytes = 1;     ///< of one
  bool ragged = false;  ///< the parts are no whole 16 bytes
};

/// Of a ring's `bytes`, the larger buffer of one rank. Simple: an all-gather of ragged parts passes each on element by
/// element; a reduce-scatter reads its own data so and passes on what lies in NCCL's buffers; an all-reduce is cut anew.
///
/// LL: each thread of a channel takes a line of 8 bytes, waits for its flags, passes it on, and takes its next line only
/// then (src/device/prims_ll.h): what a step takes goes by whole lines a thread, not by bytes, and all channels take it
/// side by side. Once 8 lines are through, the ring begins anew. What is left in a rank's own memory is stored an element
/// at a time (storeData), which of an all-gather are bytes:
///   time = fixed + (channels - 1) * one more channel + rounds * steps * hop + (steps + 1) * (lines - rounds) * line
///          + elements stored * store,  or what the links take for the bytes and their flags, where that is longer.
Exchange ring(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f,
              Elements elements);

/// All bytes pass through all ranks, in parts that follow one another: hops and the first part of a channel once. Nobody
/// timed it on any card: rings of an all-gather lend it their rates.
Exchange chain(double bytes, const Group& g, const Choice& c, const FamilyScalars& f);

/// Up one tree and down again, all channels together; hops as NCCL reckons them beside a ring's measured one.
Exchange tree(double bytes, const Group& g, const Choice& c, const FamilyScalars& f);

/// Each rank's data go down a tree of their own, all trees side by side: as many bytes as a ring sends, in fewer steps.
Exchange pat(double bytes, const Group& g, const FamilyScalars& f);

/// Switches add what they gather from all GPUs and store it to all: each sends its data once, in chunks of 128 KiB a
/// channel and rank, of which the first must have come back before the pipe is full. All-gathers and reduce-scatters move
/// what the others have. Between nodes each GPU's port takes its share: once where the network adds; in a tree of nodes up
/// and down, which of two nodes are the same way. What that takes is NCCL's own figure.
Exchange nvls(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f);

/// The network's switches add. Direct: the GPUs of a node exchange shares, each sends the sum of one by its port, gets the
/// whole of it back and hands it to the others. Chain: sums go up a chain of the node's GPUs and down again.
Exchange collnet(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f);

/// A message to each other rank, side by side. Calls that a graph has captured store right into the receiver's buffer,
/// which NCCL registers with the graph (2.24 on); others go by way of its own, and wait for the receiver to say so.
/// `ragged` as of a ring; messages with flags go the same way whatever their length.
Exchange peers(double message, double others, const Group& g, const FamilyScalars& f, bool flags, bool staged,
               bool ragged);

/// A message to each other rank by way of rails (PXN, src/transport/net.cc and src/graph/paths.cc: a GPU's messages for
/// other nodes go to the neighbour in the receiver's place first): that neighbour's port carries one message a node, of all
/// its node's GPUs. Both ways go on side by side, a hop apart. By NVLink go a node's messages and those on their way out.
Exchange along_rails(double message, const Group& g, const FamilyScalars& f, bool flags, bool staged);

}  // namespace plumbline::nccl
