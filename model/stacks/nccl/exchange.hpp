// What a collective of NCCL takes by an algorithm that has been chosen: bytes on the wire, at which rate, and what nothing
// hides.
//
// A ring passes `steps` messages of N / n bytes on, one after the other, and copies some in and out at its ends: with x
// the time that N / n bytes take at the bandwidth that the protocol reaches on the wire,
//   time = fixed + steps * hop  combined with  steps * x  + ends * x + (first part of a message at one channel's rate).
// Where flags lie beside the data (LL, LL128) a thread passes on a line as soon as it has come, so that the latency of a
// hop and its bytes overlap in part (a p-norm, as of a kernel's resources). Simple waits for whole parts: they add up.
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

/// Of a ring's `bytes`, the larger buffer of one rank. `ragged`: the ranks' parts are no whole 16 bytes. An all-gather passes each on so; a reduce-scatter reads its own data so and
/// passes on what lies in NCCL's buffers; an all-reduce is cut anew.
Exchange ring(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f,
              bool ragged = false);

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

}  // namespace plumbline::nccl
