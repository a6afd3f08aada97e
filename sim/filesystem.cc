#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "sim/disk.h"

namespace onepen::sim {

SimFs::SimFs(World& world, std::string name) : world_(world), name_(std::move(name)) {
  auto root = std::make_unique<Inode>();
  root->folder = true;
  inodes_[0] = std::move(root);
}

SimFs::InodeId SimFs::find_id(const std::string& path) const {
  constexpr InodeId kNone = UINT64_MAX;
  InodeId at = 0;
  for (std::size_t i = 0; i < path.size();) {
    const std::size_t begin = path.find_first_not_of('/', i);
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const Inode& folder = *inodes_.at(at);
    if (!folder.folder) return kNone;
    const auto found = folder.names.find(path.substr(begin, end - begin));
    if (found == folder.names.end()) return kNone;
    at = found->second;
    i = end;
  }
  return at;
}

SimFs::Inode* SimFs::find(const std::string& path) const {
  const InodeId id = find_id(path);
  return id == UINT64_MAX ? nullptr : inodes_.at(id).get();
}

SimFs::Inode* SimFs::parent_of(const std::string& path, std::string& leaf) const {
  const std::size_t slash = path.find_last_of('/');
  ONEPEN_CHECK(slash != std::string::npos && slash + 1 < path.size(), "paths are absolute and name something");
  leaf = path.substr(slash + 1);
  Inode* folder = find(path.substr(0, slash));
  return folder && folder->folder ? folder : nullptr;
}

void SimFs::apply(std::map<std::string, InodeId>& names, const NameOp& op) {
  if (!op.old_name.empty()) names.erase(op.old_name);
  if (op.inode == 0) {
    names.erase(op.name);
  } else {
    names[op.name] = op.inode;
  }
}

void SimFs::apply(Bytes& bytes, std::uint64_t from, ByteView with) {
  if (bytes.size() < from + with.size()) bytes.resize(from + with.size());
  std::copy(with.begin(), with.end(), bytes.begin() + static_cast<std::ptrdiff_t>(from));
}

void SimFs::name_op(Inode& folder, NameOp op) {
  apply(folder.names, op);
  folder.name_ops.push_back(std::move(op));
}

int SimFs::read(const std::string& path, std::uint64_t from, std::uint64_t max, Bytes& out) const {
  const Inode* file = find(path);
  if (!file) return ENOENT;
  if (file->folder) return EISDIR;
  if (from >= file->bytes.size()) return 0;
  const std::uint64_t n = std::min<std::uint64_t>(max, file->bytes.size() - from);
  out.assign(file->bytes.begin() + static_cast<std::ptrdiff_t>(from), file->bytes.begin() + static_cast<std::ptrdiff_t>(from + n));
  return 0;
}

int SimFs::size(const std::string& path, std::uint64_t& out) const {
  const Inode* file = find(path);
  if (!file) return ENOENT;
  if (file->folder) return EISDIR;
  out = file->bytes.size();
  return 0;
}

int SimFs::create(const std::string& path, ByteView bytes, std::uint32_t author) {
  std::string leaf;
  Inode* folder = parent_of(path, leaf);
  if (!folder) return ENOENT;
  if (folder->names.count(leaf) != 0) return EEXIST;
  const InodeId id = next_++;
  inodes_[id] = std::make_unique<Inode>();
  name_op(*folder, NameOp{next_op_++, author, leaf, {}, id});
  return bytes.empty() ? 0 : write(path, 0, bytes, author);
}

int SimFs::write(const std::string& path, std::uint64_t from, ByteView bytes, std::uint32_t author) {
  Inode* file = find(path);
  if (!file) return ENOENT;
  if (file->folder) return EISDIR;
  apply(file->bytes, from, bytes);
  file->byte_ops.push_back(ByteOp{author, from, to_bytes(bytes)});
  return 0;
}

int SimFs::sync_file(const std::string& path) {
  Inode* file = find(path);
  if (!file) return ENOENT;
  for (const ByteOp& op : file->byte_ops) {
    if (!op.dropped) apply(file->durable_bytes, op.from, op.bytes);
  }
  std::erase_if(file->byte_ops, [](const ByteOp& op) { return !op.dropped; });
  return 0;
}

int SimFs::drop_unsynced(const std::string& path) {
  Inode* file = find(path);
  if (!file) return ENOENT;
  for (ByteOp& op : file->byte_ops) op.dropped = true;
  return 0;
}

int SimFs::link(const std::string& from, const std::string& to, std::uint32_t author) {
  const InodeId id = find_id(from);
  if (id == UINT64_MAX) return ENOENT;
  std::string leaf;
  Inode* folder = parent_of(to, leaf);
  if (!folder) return ENOENT;
  const auto taken = folder->names.find(leaf);
  if (taken != folder->names.end()) {
    if (on_own_found && inodes_.at(taken->second)->bytes == inodes_.at(id)->bytes) on_own_found();
    return EEXIST;
  }
  name_op(*folder, NameOp{next_op_++, author, leaf, {}, id});
  return 0;
}

bool SimFs::is_folder(const std::string& path) const {
  const Inode* inode = find(path);
  return inode && inode->folder;
}

int SimFs::create_whole(const std::string& path, ByteView bytes, bool synced, std::uint32_t author) {
  std::string leaf;
  Inode* folder = parent_of(path, leaf);
  if (!folder) return ENOENT;
  const auto taken = folder->names.find(leaf);
  if (taken != folder->names.end()) {
    const Bytes& there = inodes_.at(taken->second)->bytes;
    if (on_own_found && std::equal(there.begin(), there.end(), bytes.begin(), bytes.end())) on_own_found();
    return EEXIST;
  }
  const InodeId id = next_++;
  auto file = std::make_unique<Inode>();
  file->bytes = to_bytes(bytes);
  if (synced) file->durable_bytes = file->bytes;
  if (!synced) file->byte_ops.push_back(ByteOp{author, 0, to_bytes(bytes)});
  inodes_[id] = std::move(file);
  name_op(*folder, NameOp{next_op_++, author, leaf, {}, id});
  return 0;
}

int SimFs::rename(const std::string& from, const std::string& to, std::uint32_t author) {
  const InodeId id = find_id(from);
  if (id == UINT64_MAX) return ENOENT;
  std::string old_leaf, leaf;
  Inode* source = parent_of(from, old_leaf);
  Inode* target = parent_of(to, leaf);
  if (!target) return ENOENT;
  const std::uint64_t op = next_op_++;
  if (source == target) {
    if (old_leaf != leaf) name_op(*target, NameOp{op, author, leaf, old_leaf, id});
  } else {
    name_op(*target, NameOp{op, author, leaf, {}, id});
    name_op(*source, NameOp{op, author, old_leaf, {}, 0});
  }
  return 0;
}

int SimFs::remove(const std::string& path, std::uint32_t author) {
  std::string leaf;
  Inode* folder = parent_of(path, leaf);
  if (!folder || folder->names.count(leaf) == 0) return ENOENT;
  name_op(*folder, NameOp{next_op_++, author, leaf, {}, 0});
  return 0;
}

int SimFs::sync_folder(const std::string& path) {
  Inode* folder = find(path);
  if (!folder) return ENOENT;
  if (!folder->folder) return ENOTDIR;
  for (const NameOp& op : folder->name_ops) apply(folder->durable_names, op);
  folder->name_ops.clear();
  return 0;
}

int SimFs::make_folder(const std::string& path, std::uint32_t author) {
  std::string leaf;
  Inode* parent = parent_of(path, leaf);
  if (!parent) return ENOENT;
  const auto found = parent->names.find(leaf);
  if (found != parent->names.end()) return inodes_.at(found->second)->folder ? EEXIST : ENOTDIR;
  const InodeId id = next_++;
  inodes_[id] = std::make_unique<Inode>();
  inodes_[id]->folder = true;
  name_op(*parent, NameOp{next_op_++, author, leaf, {}, id});
  return 0;
}

int SimFs::list(const std::string& path, const std::string& after, std::size_t limit, std::vector<std::string>& out) const {
  const Inode* folder = find(path);
  if (!folder) return ENOENT;
  if (!folder->folder) return ENOTDIR;
  for (auto it = folder->names.upper_bound(after); it != folder->names.end() && out.size() < limit; ++it) out.push_back(it->first);
  return 0;
}

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
  for (const ByteOp& op : inode.byte_ops) apply(inode.bytes, op.from, op.bytes);
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

void SimFs::power_loss(std::uint32_t author) {
  const std::uint64_t salt = world_.random().next();
  world_.note("fs.power_loss", name_, author);
  for (auto& [id, inode] : inodes_) {
    if (!inode->byte_ops.empty()) lose_bytes(*inode, author);
    if (!inode->name_ops.empty()) lose_names(*inode, author, salt);
  }
}

}  // namespace onepen::sim
