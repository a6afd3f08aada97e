// What a loss of power leaves of a simulated filesystem: by the seed (power_loss), or just the operations it is told to keep (become).
#include "sim/disk.h"

namespace onepen::sim {

bool SimFs::unsynced_names(const std::string& folder) const {
  const Inode* inode = find(folder);
  return inode && !inode->name_ops.empty();
}

void SimFs::lose_bytes(Inode& inode, std::uint32_t author) {
  std::vector<ByteOp> left;
  for (ByteOp& op : inode.byte_ops) {
    if (author != kEverybody && op.author != author) {
      left.push_back(std::move(op));
      continue;
    }
    if (op.dropped) continue;
    if (op.cut) {
      if (world_.random().chance(500)) apply(inode.durable_bytes, op);
      continue;
    }
    switch (world_.random().below(4)) {
      case 0: break;                                                        // lost
      case 1: apply(inode.durable_bytes, op.from, op.bytes); break;         // kept
      case 2:                                                               // torn: a beginning of it
        apply(inode.durable_bytes, op.from, ByteView(op.bytes).first(world_.random().below(op.bytes.size() + 1)));
        break;
      default: apply(inode.durable_bytes, op.from, Bytes(op.bytes.size())); // the length was kept, the bytes were not
    }
  }
  inode.byte_ops = std::move(left);
  inode.bytes = inode.durable_bytes;
  for (const ByteOp& op : inode.byte_ops) apply(inode.bytes, op);
}

void SimFs::lose_names(Inode& inode, std::uint32_t author, std::uint64_t salt) {
  std::vector<NameOp> left;
  for (NameOp& op : inode.name_ops) {
    if (author != kEverybody && op.author != author) {
      left.push_back(std::move(op));
      continue;
    }
    const bool kept = (Random(salt ^ op.id).next() & 1) != 0;
    if (kept) apply(inode.durable_names, op);
    if (on_name_at_risk && op.inode != 0) on_name_at_risk(op.name, kept);
  }
  inode.name_ops = std::move(left);
  inode.names = inode.durable_names;
  for (const NameOp& op : inode.name_ops) apply(inode.names, op);
}

std::vector<std::uint64_t> SimFs::unsynced() const {
  std::set<std::uint64_t> ids;
  for (const auto& [id, inode] : inodes_) {
    for (const ByteOp& op : inode->byte_ops) {
      if (!op.dropped) ids.insert(op.id);
    }
    for (const NameOp& op : inode->name_ops) ids.insert(op.id);
  }
  return {ids.begin(), ids.end()};
}

std::vector<std::vector<std::uint64_t>> SimFs::unsynced_by_file() const {
  std::vector<std::vector<std::uint64_t>> all;
  for (const auto& [id, inode] : inodes_) {
    std::vector<std::uint64_t> of_this;
    for (const ByteOp& op : inode->byte_ops) {
      if (!op.dropped) of_this.push_back(op.id);
    }
    for (const NameOp& op : inode->name_ops) of_this.push_back(op.id);
    if (!of_this.empty()) all.push_back(std::move(of_this));
  }
  return all;
}

void SimFs::record(const SimFs& from) {
  inodes_.clear();
  for (const auto& [id, inode] : from.inodes_) inodes_[id] = std::make_unique<Inode>(*inode);
  next_ = from.next_;
  next_op_ = from.next_op_;
  boots_ = from.boots_;
  unnamed_files = from.unnamed_files;
}

void SimFs::become(const SimFs& from, const std::set<std::uint64_t>& kept, std::uint64_t torn) {
  inodes_.clear();
  locks_.clear();
  next_ = from.next_;
  next_op_ = from.next_op_;
  boots_ = from.boots_ + 1;
  unnamed_files = from.unnamed_files;
  for (const auto& [id, inode] : from.inodes_) {
    auto made = std::make_unique<Inode>();
    made->folder = inode->folder;
    made->durable_bytes = inode->durable_bytes;
    made->durable_names = inode->durable_names;
    for (const ByteOp& op : inode->byte_ops) {
      if (op.dropped || kept.count(op.id) == 0) continue;
      if (op.id == torn && !op.cut) apply(made->durable_bytes, op.from, ByteView(op.bytes).first(op.bytes.size() / 2));
      else apply(made->durable_bytes, op);
    }
    for (const NameOp& op : inode->name_ops) {
      if (kept.count(op.id) != 0) apply(made->durable_names, op);
    }
    made->bytes = made->durable_bytes;
    made->names = made->durable_names;
    inodes_[id] = std::move(made);
  }
}

void SimFs::power_loss(std::uint32_t author) {
  const std::uint64_t salt = world_.random().next();
  world_.note("fs.power_loss", name_, author);
  if (author == kEverybody) ++boots_;
  for (auto& [id, inode] : inodes_) {
    if (!inode->byte_ops.empty()) lose_bytes(*inode, author);
    if (!inode->name_ops.empty()) lose_names(*inode, author, salt);
  }
}

}  // namespace onepen::sim
