#!/usr/bin/env python3
"""Writes template_cases.json: templates and their text by Jinja2 3.1, in the environment of transformers' apply_chat_template.

usage: template_cases.py > template_cases.json
"""
import json
import sys

from jinja2 import TemplateError, __version__
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

MESSAGES = [
    {"role": "system", "content": "  Be brief.\n"},
    {"role": "user", "content": "Héllo, \"wörld\" <b> & 'x' 日本 👍", "n": 7, "f": 2.5, "e": 1e20, "z": None, "t": True, "l": [3, 1, 2], "d": {"a": 1, "b": [True, None]}},
    {"role": "assistant", "content": "a,b,,c", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
    {"role": "user", "content": ""},
]
U = "{% set u = messages[1] %}"
CASES = [
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ 'sys' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    # white space
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a  {%- if true -%}  b  {%- endif -%}  c", "x {{- 1 -}} y", "  {#- c -#}  z", "a\n  {# c #}\nb\n\n", "  {%+ if true %} b{% endif +%}\nc",
    "\r\na\r{{ 'x\ny' }}\r\n", "{% if true %}\n\n  a{% endif %}", "a {{ 1 }}\n b", "{% if true %}  {% if true %}x{% endif %}\n{% endif %}", "{{ '{%' }} { % }}", "{# a #}{# b #}\nx", "\t{%- set x = 1 %}\n{{ x }}\n\n\n",
    # loops and scopes
    "{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role }}>{{ m.role }}>{{ loop.nextitem.role if not loop.last }};{% endfor %}" , "{% for m in messages %}{{ loop.previtem is defined }}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{% endfor %}",
    "{% for x in [] %}a{% else %}b{% endfor %}", "{% for x in nothing %}a{% else %}b{% endfor %}", "{% set x = 1 %}{% for i in range(3) %}{{ x }}{% set x = x + i + 5 %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(n=0, s='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.s = ns.s + m.role[0] %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.q }}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ loop.length }}{{ m.content }};{% endfor %}", "{% for k, v in messages[1].items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in messages[1] %}{{ k }} {% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(3) %}{% for j in range(i) %}{{ loop.index }}{{ i }}{{ j }},{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for c in 'aé日' %}{{ c }}.{% endfor %}", "{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}", "{% set a, b = 1, 'x' %}{{ a }}{{ b }}", "{% if false %}{% set q = 1 %}{% endif %}{{ q is defined }}{{ q }}",
    "{% set b %}x{{ 1 }}{% set inner = 3 %}{% endset %}{{ b }}{{ b|length }}{{ inner }}", "{% if 0 %}a{% elif '' %}b{% elif [] %}c{% else %}d{% endif %}", "{{ 1 if false }}|{{ 'a' if 0 else 'b' if 1 else 'c' }}",
    "{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{{ range(3)|list }}{{ range(4)[1] }}{{ range(0)|length }}", "{% set loop_x = 1 %}{% for i in [1] %}{% if true %}{% set loop_x = 2 %}{% endif %}{{ loop_x }}{% endfor %}{{ loop_x }}",
    # expressions
    "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 * 'ab' }} {{ [1] * 3 }} {{ 1 ~ 'x' ~ none ~ true ~ 1.0 }}",
    "{{ 1 < 2 < 3 }}{{ 1 < 2 > 3 }}{{ 1 == 1.0 }}{{ true == 1 }}{{ 'a' < 'b' }}{{ 'é' > 'z' }}{{ [1, 2] == [1, 2] }}{{ (1,) == [1] }}{{ {'a': 1} == {'a': 1.0} }}{{ none == none }}{{ x == y }}",
    "{{ 'a' in 'cat' }}{{ 1 in [1] }}{{ 'a' in {'a': 0} }}{{ 'a' not in 'b' }}{{ not 'a' in 'a' }}{{ 1 in x }}{{ 1 in (1, 2) }}{{ not true and false or true }}{{ 0 or 'd' }}{{ 1 and 'e' }}{{ not not 1 }}",
    "{{ 'abc'[0] }}{{ 'abc'[-1] }}{{ 'aé日'[1] }}{{ 'abc'[1:] }}{{ 'abcdef'[::2] }}{{ 'abc'[::-1] }}{{ [1, 2, 3][-2:] }}{{ 'abc'[5] }}{{ [1][3] is defined }}{{ 'abcdef'[-100:2] }}{{ 'aé日b'[1:3] }}{{ [1,2,3,4][3:0:-2] }}",
    "{{ messages[0].role }}{{ messages[0]['nope'] }}{{ messages[0].nope is defined }}{{ messages[-1].role }}{{ messages[9] is defined }}{{ messages|length }}{{ messages[1:]|length }}{{ messages.nope }}",
    "{{ (1) }}{{ (1,) }}{{ () }}{{ [1, 'a', none, true, 2.5, {'k': [()]}] }}{{ {1: 2, 'a': 'it\\'s', none: '\"'} }}{{ 1, 2 }}", U + "{{ u.d }}{{ u.l }}{{ u.n }}{{ u.f }}{{ u.e }}{{ u.z }}{{ u.t }}",
    "{{ 1e16 }} {{ 1e15 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 1e22 }} {{ 100.0 }} {{ 1_000 }} {{ 3.0 * 2 }} {{ 1/3 }} {{ 2.5e300 * 1e10 }} {{ 1e300 * 1e300 }} {{ -0.0 }}", "{{ 'a\\n\\t\\\\\\'\\x41\\u00e9\\q\\101' }}", '{{ "x" "y" \'z\' }}',
    "{{ -1 + +2 }}{{ -true }}{{ - 2 * 3 }}{{ -5|abs }}{{ (-5)|abs }}", "{{ 'a' ~ 1 + 2 }}{{ 1 + 2 ~ 'a' }}{{ 2 - 1 - 1 }}{{ 8 / 2 / 2 }}{{ (1 + 2) * (3 + 4) }}{{ 1 - (2 - 3) }}{{ (1 < 2) == true }}{{ 1 < (2 < 3) }}",
    "{{ undefined_name }}{{ undefined_name ~ 'x' }}{{ undefined_name is none }}{{ [undefined_name] }}", "{{ true }}{{ True }}{{ false }}{{ None }}{{ none }}", "{{ messages == messages }}{{ messages != [] }}{{ 'a' 'b' == 'ab' }}",
    # methods
    "[{{ '  a b '.strip() }}][{{ 'xxaxx'.strip('x') }}][{{ ' a '.lstrip() }}][{{ ' a '.rstrip() }}][{{ 'aé'.rstrip('é') }}][{{ '\u2003a\u0085'.strip() }}]", "{{ 'a,b,,c'.split(',') }}{{ ' a  b c '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ ' a  b c '.split(none, 1) }}{{ ''.split(',') }}{{ ''.split() }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith('bc') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'aBc dE'.upper() }}{{ 'aBc dE'.lower() }}{{ \"they're bill's\".title() }}{{ 'aBC dE'.capitalize() }}{{ 'aXbX'.replace('X', 'yy') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ '-'.join(['a', 'b']) }}",
    "{{ messages[1].get('n') }}{{ messages[1].get('q') }}{{ messages[1].get('q', 'd') }}{{ messages[0].keys()|list }}{{ messages[0].values()|list }}{{ messages[0].items()|list }}{{ messages[0].keys()|length }}{{ 'role' in messages[0].keys() }}",
    "{% set m = messages[2] %}{{ m.content.split(',')[0] }}{{ m.tool_calls[0].function.name }}{{ m['tool_calls'][0]['function']['arguments']|tojson }}{{ (m.content.split(',')|last).upper() }}",
    # filters
    "[{{ '  x\\n'|trim }}][{{ messages[0].content|trim }}][{{ 'xax'|trim('x') }}]{{ 'aé日'|length }}{{ [1, 2]|length }}{{ {'a': 1}|length }}{{ 'ab'|upper }}{{ 'AB'|lower }}{{ 5|string + 'x' }}{{ 'hello wORLD'|title }}{{ 'hELLO x'|capitalize }}{{ nope|length }}{{ nope|trim }}",
    "{{ messages|tojson }}", "{{ messages[1]|tojson(indent=2) }}", "{{ [[], {}, [1, [2]], {'a': {}}]|tojson(indent=4) }}", "{{ '\\x01\\x7f\\\\\"\u2028é'|tojson }}{{ (1, 'a')|tojson }}{{ {1: 1, true: 2, none: 3, 2.5: 4}|tojson }}{{ 1e16|tojson }}",
    "{{ ['a', 1, none]|join(', ') }}{{ messages|join('|', attribute='role') }}{{ 'abc'|join('-') }}{{ []|join }}", "{{ x|default('d') }}{{ ''|default('d') }}{{ ''|default('d', true) }}{{ none|d('e') }}{{ x|d }}", "{{ [1, 2]|first }}{{ [1, 2]|last }}{{ []|first is defined }}{{ 'abc'|first }}{{ 'abc'|list }}{{ {'a': 1}|list }}",
    "{{ '12'|int + 1 }}{{ ' 7 '|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ '3.9'|int }}{{ 2.9|int }}{{ none|int }}{{ true|int }}{{ '1.5'|float }}{{ 2|float }}{{ 'x'|float }}{{ '1e3'|float }}", "{{ 'a-b-c'|replace('-', '+') }}{{ 'aaa'|replace('a', 'b', 1) }}{{ 5|replace('5', '6') }}",
    "{{ messages|map(attribute='role')|list }}{{ ['a', 'b']|map('upper')|join }}{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|rejectattr('role', 'in', ['user', 'system'])|map(attribute='role')|list }}{{ [0, 1, none, 'a']|select|list }}{{ [1, 2, 3]|reject('odd')|list }}{{ messages|selectattr('tool_calls')|list|length }}{{ messages|selectattr('n', 'defined')|list|length }}",
    "{{ [1, 2, 3]|reverse|list }}{{ 'abc'|reverse }}{{ {'a': 1}|items|list }}{% for k, v in {'b': 2}|items %}{{ k }}{{ v }}{% endfor %}{{ 'yes' if []|select }}", "{% if messages|selectattr('role', 'equalto', 'nobody') %}generator{% endif %}",
    # nothing to choose from
    "{{ none|select|list }}{{ x|selectattr('a')|list }}{{ tools|rejectattr('a', 'eq', 1)|list }}{{ 0|reject('odd')|list }}{{ false|map('upper')|list }}{{ ''|map(attribute='a')|list }}{{ {}|map|list }}{{ messages[0].tool_calls|selectattr|list|length }}", "{% for t in tools|selectattr('function') %}a{% else %}b{% endfor %}{{ 'g' if none|map }}", "{{ 1|select|list }}", "{{ true|map('upper')|list }}", "{{ none|list }}", "{{ none|first }}", "{{ [1]|map|list }}", "{{ [1]|selectattr|list }}",
    # texts that are safe
    "{{ '<a>'|safe + 'b' }}{{ '<a>'|safe + '<b>' }}{{ '<c>' + '<a>'|safe }}{{ '<a>'|safe ~ '<b>' }}{{ '<a>'|safe + '<b>'|e }}{{ ('<' + 'x'|safe) * 2 + '>' }}", "{{ (messages[1].content|safe)|trim + '<' }}{{ (' <a> '|safe).strip() + '<' }}{{ ('<a,b'|safe).split(',')[1] + '<' }}{{ ('<a>'|safe)[1:] + '<' }}{{ ('<a>'|safe)[0] + '<' }}{{ '<'|safe|string + '<' }}",
    "{{ ('<a'|safe)|replace('a', '<') + '<' }}{{ [('<'|safe), '<']|join('>') }}{{ '<'.join(['<'|safe]) + '<' }}{{ '%s<' % ('<'|safe) }}{{ '{}<{:>3}'.format('<'|safe, '>'|safe) }}{{ '<a>'|safe|tojson + '<' }}{{ ('<a'|safe).startswith('<') }}{{ '<'|safe in 'a<b' }}{{ ('<'|safe) == '<' }}", "{{ messages[0].content|safe + '\\n' + messages[2]|tojson|safe }}", "{% set s = ''|safe %}{% for m in messages %}{% set s = s + m.role %}{{ s + '<' }}{% endfor %}", "{{ 'a'|safe + 1 }}", "{{ 'a'|safe + x }}",
    # tests
    "{{ x is defined }}{{ x is undefined }}{{ 1 is number }}{{ true is number }}{{ true is integer }}{{ 1.0 is float }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is sequence }}{{ 'a' is iterable }}{{ none is none }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ true is boolean }}{{ x is iterable }}{{ () is sequence }}",
    "{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(4) }}{{ 1 is not none }}{{ 1 is eq 1 }}{{ 2 is in [1, 2] }}{{ not x is defined }}{{ 1 is not defined or true }}{{ 1 is number and 2 is string }}{{ 5 is gt 4 }}{{ messages[0].role is string }}",
    "{{ tools }}{{ tools is defined }}{{ tools is none }}{{ documents is none }}{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}", "{% generation %}x{% endgeneration %}",
    # errors
    "{{ raise_exception('no ' ~ 1) }}", "{{ x.y }}", "{{ x['y'] }}", "{{ x() }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ 'a' + x }}", "{{ x + 1 }}", "{{ 1 < 'a' }}", "{{ x < 1 }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 1.5 // 0 }}", "{{ none.x.y }}", "{{ 'a'.nope() }}", "{{ messages.append(1) }}", "{{ messages[0].update({}) }}",
    "{% for x in 1 %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{{ 1 in 2 }}", "{{ 1 in 'a' }}", "{{ x|tojson }}", "{{ range(1000000000000) }}", "{{ range('a') }}", "{{ 1|length }}", "{{ 'a'|items|list }}", "{{ -'a' }}", "{{ 'a' * 'b' }}", "{{ [1] + (2,) }}", "{% set x = 1 %}{% set x.y = 2 %}", "{{ [1][::0] }}", "{{ 'a'.split('') }}", "{{ x|int }}", "{{ messages|map('length')|list }}{{ 3|abs }}{{ 'a'|abs }}", "{{ 1() }}",
    "{{ ", "{% if %}{% endif %}", "{% if true %}", "{% endif %}", "{{ 1 + }}", "{{ 'a }}", "{# ", "{{ (1 }}", "{% for in x %}{% endfor %}", "{% nonsense %}", "{{ a b }}", "{% set 1 = 2 %}", "{{ [1, 2 }}", "{{ {1} }}", "{% break %}", "{{ 1 is }}", "{% else %}", "{{ ! }}", "{% set true = 1 %}", "{{ | trim }}",
]


def environment():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def main():
    assert __version__.startswith("3.1."), __version__
    env, cases = environment(), []
    for source in CASES:
        plain = source.replace("{% generation %}", "").replace("{% endgeneration %}", "")  # marks that render as nothing
        try:
            expected = env.from_string(plain).render(messages=MESSAGES, tools=None, documents=None, bos_token="<s>", eos_token="</s>", add_generation_prompt=True)
            cases.append({"template": source, "expected": expected})
        except Exception as e:  # of every kind: an error is all that is compared
            cases.append({"template": source, "error": f"{type(e).__name__}: {e}"})
    json.dump({"jinja2": __version__, "messages": MESSAGES, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
    print()


main()
