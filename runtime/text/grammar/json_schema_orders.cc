// Objects whose members come in any order: the frame of their rule keeps which have come (members.h).
#include <bit>
#include <map>

#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

namespace {

// Names as they are spelled, by their bytes.
struct NameTree {
  struct Branch {
    std::map<uint8_t, uint32_t> next{};
    uint64_t below = 0;  // the members whose names go on here, by their bits
    uint64_t ends = 0;   // the one whose name ends here
  };
  std::vector<Branch> branches{1};

  void add(std::string_view name, uint64_t member) {
    uint32_t at = 0;
    for (char c : name) {
      branches[at].below |= member;
      const auto [child, fresh] = branches[at].next.try_emplace(static_cast<uint8_t>(c), static_cast<uint32_t>(branches.size()));
      at = child->second;
      if (fresh) branches.emplace_back();
    }
    branches[at].below |= member;
    branches[at].ends = member;
  }
};

}  // namespace

// From a member's first mark to where its value begins: values[i] is that of the member with bit i. One tree for all names, so that a text has
// one reading while its name is read, however many there are. The mark and each byte are open while a member that they lead to may come.
uint32_t SchemaCompiler::names_tree(const NameMarks& marks, uint32_t object, const std::vector<const Member*>& members,
                                    const std::vector<uint32_t>& values) {
  NameTree tree;
  for (size_t i = 0; i < members.size(); ++i) {
    if (const auto name = spelled_name(members[i]->name, marks)) tree.add(*name, uint64_t{1} << i);
  }
  std::vector<uint32_t> nodes;
  for (size_t i = 0; i < tree.branches.size(); ++i) nodes.push_back(builder_.join());
  for (size_t i = 0; i < nodes.size() && builder_.status().is_ok(); ++i) {
    const NameTree::Branch& at = tree.branches[i];
    std::vector<uint32_t> ways;
    for (const auto& [byte, child] : at.next) {
      const uint64_t below = tree.branches[child].below;
      const uint32_t gate = below == at.below ? 0 : builder_.add_gate(object, MemberGate::kMayCome, below);
      const Part read = builder_.bytes(byte, byte, gate);
      builder_.link(read.out, nodes[child]);
      ways.push_back(read.in);
    }
    if (at.ends != 0) {
      const Part comes = builder_.gate(builder_.add_gate(object, MemberGate::kComes, at.ends)), end = named(marks.close);
      builder_.link(comes.out, end.in);
      builder_.link(end.out, values[static_cast<size_t>(std::countr_zero(at.ends))]);
      ways.push_back(comes.in);
    }
    builder_.link(nodes[i], ways);
  }
  const Part begin = builder_.gate(builder_.add_gate(object, MemberGate::kMayCome, tree.branches[0].below)), open = mark(marks.open);
  builder_.link(begin.out, open.in);
  builder_.link(open.out, nodes[0]);
  return begin.in;
}

Result<SchemaCompiler::Part> SchemaCompiler::object_in_any_order(const Members& m, std::optional<uint32_t> other) {
  std::vector<const Member*> members;  // by their bits
  GrammarBuilder::Members kept;
  kept.min = m.count.min;
  kept.max = m.count.max;
  kept.other = other;
  for (const Member& one : m.listed) {
    if (one.never) continue;
    if (one.required) kept.required |= uint64_t{1} << members.size();
    kept.rules.push_back(rule_for(one.all, member_place(one.name)));
    members.push_back(&one);
  }
  const auto required = static_cast<uint32_t>(std::popcount(kept.required));
  if (required > kept.max) return builder_.never();
  if (other) kept.others_counted = kept.max != GrammarBuilder::kNoMax ? kept.max : kept.min > required ? 1 : 0;
  const uint64_t all = members.empty() ? 0 : ~uint64_t{0} >> (MemberRules::kNamedMax - members.size());
  const uint32_t rule = builder_.keeps_members(rule_) ? builder_.add_rule("members") : rule_;  // one object has one rule
  KVRT_TRY(builder_.status());
  builder_.keep_members(rule, std::move(kept));

  const uint32_t first = builder_.join(), after = builder_.join(), out = builder_.join();
  std::vector<uint32_t> values, ways;
  for (const Member* one : members) {
    const Part value = ended(builder_.call(rule_for(one->all, member_place(one->name))), one->name);
    builder_.link(value.out, after);
    values.push_back(value.in);
  }
  for (const NameMarks& marks : name_marks()) {
    if (!members.empty()) ways.push_back(names_tree(marks, rule, members, values));
  }
  if (other) {
    const Part comes = builder_.gate(builder_.add_gate(rule, MemberGate::kComes, 0, true)), one = builder_.call(*other);
    builder_.link(comes.out, one.in);
    builder_.link(one.out, after);
    ways.push_back(comes.in);
  }
  builder_.link(first, ways);
  Part more = builder_.gate(builder_.add_gate(rule, MemberGate::kMayCome, all, other.has_value()));
  more = builder_.sequence(more, comma());
  builder_.link(more.out, first);
  Part whole = builder_.gate(builder_.add_gate(rule, MemberGate::kWhole, 0));
  whole = builder_.sequence(builder_.sequence(whole, space()), mark(spelling().object_end));
  builder_.link(whole.out, out);
  const uint32_t goes_on[] = {whole.in, more.in};
  builder_.link(after, goes_on);

  const Part open = mark(spelling().object), before = space();
  builder_.link(before.out, first);
  ways = {before.in};
  if (m.count.min == 0 && required == 0) {
    const Part empty = mark(spelling().object_end);
    builder_.link(empty.out, out);
    ways.push_back(empty.in);
  }
  builder_.link(open.out, ways);
  KVRT_TRY(builder_.status());
  const Part whole_object{first, open.in, out};
  if (rule == rule_) return whole_object;
  builder_.define(rule, whole_object);
  return builder_.call(rule);
}

}  // namespace kvrt
