#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "sim/disk.h"

namespace onepen::sim {

SimFs::SimFs(World& world, std::string name) : world_(world), name_(std::move(name)) {
  auto root = std::make_unique<Inode>();
  root->folder = true;
  inodes_[0] = std::move(root);
  world.on_kill.push_back([this](Process& p) { std::erase_if(locks_, [&](const auto& item) { return item.second.process == p.id; }); });
}

SimFs::InodeId SimFs::find_id(const std::string& path) const {
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
  return id == kNone ? nullptr : inodes_.at(id).get();
}

SimFs::Inode* SimFs::file(InodeId id) const {
  Inode* inode = inodes_.at(id).get();
  return inode->folder ? nullptr : inode;
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

void SimFs::apply(Bytes& bytes, const ByteOp& op) {
  if (op.cut) return bytes.resize(op.from);
  apply(bytes, op.from, op.bytes);
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
  const InodeId id = find_id(path);
  return id == kNone ? ENOENT : write(id, from, bytes, author);
}

int SimFs::sync_file(const std::string& path) {
  const InodeId id = find_id(path);
  return id == kNone ? ENOENT : sync_file(id);
}

int SimFs::drop_unsynced(const std::string& path) {
  const InodeId id = find_id(path);
  return id == kNone ? ENOENT : drop_unsynced(id);
}

int SimFs::read(InodeId id, std::uint64_t from, std::span<std::byte> out, std::size_t& done) const {
  const Inode* at = file(id);
  if (!at) return EISDIR;
  done = from >= at->bytes.size() ? 0 : std::min<std::size_t>(out.size(), at->bytes.size() - from);
  std::copy_n(at->bytes.begin() + static_cast<std::ptrdiff_t>(done == 0 ? 0 : from), done, out.begin());
  return 0;
}

int SimFs::size(InodeId id, std::uint64_t& out) const {
  const Inode* at = file(id);
  if (!at) return EISDIR;
  out = at->bytes.size();
  return 0;
}

int SimFs::write(InodeId id, std::uint64_t from, ByteView bytes, std::uint32_t author) {
  Inode* at = file(id);
  if (!at) return EISDIR;
  apply(at->bytes, from, bytes);
  at->byte_ops.push_back(ByteOp{next_op_++, author, from, to_bytes(bytes)});
  return 0;
}

int SimFs::cut(InodeId id, std::uint64_t size, std::uint32_t author) {
  Inode* at = file(id);
  if (!at) return EISDIR;
  at->bytes.resize(size);
  at->byte_ops.push_back(ByteOp{next_op_++, author, size, {}, false, true});
  return 0;
}

int SimFs::sync_file(InodeId id) {
  Inode* at = file(id);
  if (!at) return EISDIR;
  if (before_sync && !at->byte_ops.empty()) before_sync();
  for (const ByteOp& op : at->byte_ops) {
    if (!op.dropped) apply(at->durable_bytes, op);
  }
  std::erase_if(at->byte_ops, [](const ByteOp& op) { return !op.dropped; });
  return 0;
}

int SimFs::drop_unsynced(InodeId id) {
  Inode* at = file(id);
  if (!at) return EISDIR;
  for (ByteOp& op : at->byte_ops) op.dropped = true;
  return 0;
}

const void* SimFs::locked_by(InodeId id) const {
  const auto found = locks_.find(id);
  return found == locks_.end() ? nullptr : found->second.holder;
}

void SimFs::lock(InodeId id, const void* holder, std::uint32_t process) { locks_[id] = FileLock{holder, process}; }

void SimFs::unlock(InodeId id, const void* holder) {
  if (locked_by(id) == holder) locks_.erase(id);
}

void SimFs::copy_tree(const SimFs& from, const std::string& source, const std::string& target) {
  const Inode* folder = from.find(source);
  if (!folder || !folder->folder) return;
  for (std::size_t end = target.find('/', 1);; end = target.find('/', end + 1)) {
    static_cast<void>(make_folder(target.substr(0, end), kEverybody));
    if (end == std::string::npos) break;
  }
  for (const auto& [name, id] : folder->names) {
    const Inode& inode = *from.inodes_.at(id);
    if (inode.folder) {
      copy_tree(from, source + "/" + name, target + "/" + name);
    } else if (create(target + "/" + name, {}, kEverybody) == 0) {
      Inode& made = *find(target + "/" + name);
      made.bytes = made.durable_bytes = inode.bytes;
    }
  }
  for (std::string path = target; !path.empty(); path = path.substr(0, path.find_last_of('/'))) static_cast<void>(sync_folder(path));
  static_cast<void>(sync_folder("/"));
}

int SimFs::link(const std::string& from, const std::string& to, std::uint32_t author) {
  const InodeId id = find_id(from);
  if (id == kNone) return ENOENT;
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
  if (!synced) file->byte_ops.push_back(ByteOp{next_op_++, author, 0, to_bytes(bytes)});
  inodes_[id] = std::move(file);
  name_op(*folder, NameOp{next_op_++, author, leaf, {}, id});
  return 0;
}

int SimFs::rename(const std::string& from, const std::string& to, std::uint32_t author) {
  const InodeId id = find_id(from);
  if (id == kNone) return ENOENT;
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
  const Inode* there = find(path);
  if (there && there->folder && !there->names.empty()) return ENOTEMPTY;
  name_op(*folder, NameOp{next_op_++, author, leaf, {}, 0});
  return 0;
}

int SimFs::sync_folder(const std::string& path) {
  Inode* folder = find(path);
  if (!folder) return ENOENT;
  if (!folder->folder) return ENOTDIR;
  if (before_sync && !folder->name_ops.empty()) before_sync();
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

}  // namespace onepen::sim
