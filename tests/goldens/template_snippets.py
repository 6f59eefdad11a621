"""Small templates, one thing each: expressions, statements, white space, and what must be refused."""

# One a line.
SNIPS = r'''
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e20 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 1e-5 }} {{ 0.0001 }} {{ 1.5e300 * 1e10 }} {{ 3.0 * 2 }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'x'] ~ {'a': 1} }}
{{ "it's" }} {{ ["it's", 'say "x"', 'both \' "'] }} {{ ['\n\t\\ü\x01\u200b'] }}
{{ [1, 2, 3][1:] }} {{ [1,2,3][::-1] }} {{ 'héllo'[1:3] }} {{ 'héllo'[::-1] }} {{ 'abc'[-1] }} {{ [1,2,3][-1] }} {{ [1,2,3][5] is defined }} {{ (1,2)[:1] }} {{ (1,) }} {{ () }}
{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[0].get('role') }} {{ messages[0].get('nope') }} {{ messages[0].get('nope', 'x') }} {{ messages[0].nope is defined }} {{ messages[0].nope }}|
{{ messages|length }} {{ messages|map(attribute='role')|list }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|map(attribute='role')|join(', ') }}
{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ loop.first }}{{ loop.last }}{{ loop.revindex0 }} {{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index0 }}:{{ m.content }}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% else %}none{% endfor %}
{% for x in [] %}a{% else %}empty{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }} {% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}
{% for i in range(10) %}{% if i == 3 %}{% continue %}{% endif %}{% if i == 6 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% set ns = namespace(found=false, n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% if i == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }} {{ ns.found }} {{ ns }}
{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = [1] + [2] %}{{ c }}{% set (d, e) = (3, 4) %}{{ d + e }}
{% set block %}  hello {{ 1 }}
{% endset %}[{{ block }}]{% set up | upper | trim %} abc {% endset %}[{{ up }}]
{% macro f(a, b=2, *) %}{% endmacro %}
{% macro f(a, b=2, c='x') %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ f(1) }}{{ f(1, c='y') }}{{ f(a=1, b=none) }}{{ f() }}
{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}
{% macro g(x) %}{{ x }}{% if x > 0 %}{{ g(x - 1) }}{% endif %}{% endmacro %}{{ g(5) }}
{% macro box() %}[{{ caller('in') }}]{% endmacro %}{% call(x) box() %}<{{ x }}>{% endcall %}
{% filter upper %}abc {{ 'def' }}{% endfilter %}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}
{{ 'a' if true }}{{ 'a' if false }}|{{ 'a' if false else 'b' if 0 else 'c' }}
{{ none }} {{ true }} {{ false }} {{ undefined_thing }} {{ undefined_thing is none }} {{ not undefined_thing }} {{ undefined_thing == other_undefined }}
{{ undefined_thing.x }}
{{ undefined_thing + 1 }}
{{ undefined_thing() }}
{{ 'x' in 'xyz' }} {{ 'q' not in 'xyz' }} {{ 1 in [1,2] }} {{ 'a' in {'a': 1} }} {{ 1 in undefined_thing }} {{ (1,2) in [(1,2)] }}
{{ 1 in 'abc' }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ (1,) == [1] }} {{ {'a':1} == {'a':1.0} }}
{{ 1 < 'a' }}
{{ 'abc'.upper() }} {{ 'ABC'.lower() }} {{ 'aBc dEf'.title() }} {{ 'aBc dEf'|title }} {{ 'aBc'.capitalize() }} {{ 'straße'.upper() }} {{ 'İ'.lower() }} {{ 'ǆ'.upper() }} {{ 'ΑΒΓς'|lower }} {{ 'aB'.swapcase() }}
{{ '  x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ '  x '.lstrip() }}|{{ '  x '.rstrip() }}|{{ ' \u00a0\u3000x\u2003'.strip() }}|{{ '  a'|trim }}|{{ 'xax'|trim('x') }}
{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b c '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a<x>b'.split('<x>')[-1] }} {{ ''.split(',') }} {{ ''.split() }} {{ 'abc'.split('') }}
{{ 'a-b'.partition('-') }} {{ 'ab'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'ab'.rpartition('-') }}
{{ 'abcabc'.replace('b', 'X') }} {{ 'abcabc'.replace('b', 'X', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'|replace('a', 'bb') }} {{ 'aaa'|replace('a', 'b', 2) }}
{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ 'hello'.count('l') }} {{ 'héllo'.index('l') }} {{ 'hello'.find('l', 3) }} {{ 'hello'.find('l', -2) }} {{ ''.find('', 1) }} {{ 'aaa'.count('') }}
{{ 'hello'.startswith('he') }} {{ 'hello'.endswith(('x', 'lo')) }} {{ 'hello'.startswith('l', 2) }} {{ 'hello'.removeprefix('he') }} {{ 'hello'.removesuffix('lo') }} {{ 'a'.isalpha() }} {{ '12'.isdigit() }} {{ 'A1'.isalnum() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ ''.isalpha() }} {{ '½'.isnumeric() }}
{{ 'ab'.center(7, '*') }} {{ 'abc'.center(6, '*') }} {{ 'ab'.ljust(5, '.') }} {{ 'ab'.rjust(5) }} {{ '-42'.zfill(6) }} {{ 'ab'|center(6) }}|
{{ ', '.join(['a', 'b']) }} {{ ['a', 1, none]|join('-') }} {{ 'abc'|join('.') }}
{{ ', '.join(['a', 1]) }}
{{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }}
{{ '%s is %d and %.2f %5s|%-5s|%05d %x %%' % ('a', 3, 2.5, 'b', 'c', 42, 255) }} {{ '%s' % 'x' }} {{ '%(a)s' % {'a': 1} }} {{ "%s, %s"|format('a', 'b') }}
{{ '{} {1}'.format(1, 2) }}
{{ '{} {} {}'.format('a', 1, none) }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x:>5}|{y:<4}|{z:^5}|{n:05d}|{f:.2f}|{c:,}'.format(x='a', y='b', z='c', n=42, f=3.14159, c=1234567) }} {{ '{{}}'.format() }} {{ '{!r}'.format('a') }}
{{ {'b': 1, 'a': [1, 2.0, none, true, 'ü"\\\n\u0001\u007f']}|tojson }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ 'é😀'|tojson(ensure_ascii=true) }}
{{ {'b': 1, 'a': [1, {'x': []}], 'e': {}}|tojson(indent=2) }}
{{ [1, {'a': 2}]|tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ (1, 2)|tojson }} {{ messages|tojson(indent=4) }}
{{ undefined_thing|tojson }}
{{ {'a': undefined_thing}|tojson }}
{{ [3, 1, 2]|sort }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A', 'c']|sort(case_sensitive=true) }} {{ [3,1,2]|sort(reverse=true) }} {{ [{'n': 2, 'm': 'x'}, {'n': 1, 'm': 'y'}]|sort(attribute='n') }} {{ {'b': 1, 'a': 2}|dictsort }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }}
{{ [1, 2, 3]|sum }} {{ [{'a': 1}, {'a': 2}]|sum(attribute='a') }} {{ [1, 2]|max }} {{ ['b', 'a']|min }} {{ []|max is defined }} {{ [1, 1, 2]|unique|list }} {{ ['a', 'A']|unique|list }}
{{ [1, 2, 3]|first }} {{ [1, 2, 3]|last }} {{ []|first is defined }} {{ 'abc'|first }} {{ 'abc'|reverse }} {{ [1, 2]|reverse|list }} {{ {'a': 1}|items|list }} {{ 'abc'|list }} {{ {'a': 1, 'b': 2}|list }}
{{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3,4,5]|batch(2, 'x')|list }} {{ [1,2,3,4,5]|slice(2)|list }} {{ [1,2,3,4,5]|slice(3, 'x')|list }}
{{ [{'a': 1, 'b': 1}, {'a': 2, 'b': 2}, {'a': 1, 'b': 3}]|groupby('a')|list }} {% for g in [{'a': 1, 'b': 1}, {'a': 2, 'b': 2}, {'a': 1, 'b': 3}]|groupby('a') %}{{ g.grouper }}:{{ g.list|map(attribute='b')|list }}{{ g['list']|length }}{{ g[0] }}{% endfor %} {% for k, v in [{'a': 'x', 'b': 1}, {'a': 'y', 'b': 2}]|groupby('a') %}{{ k }}{{ v|length }}{% endfor %}
{{ [1,2,3,4]|select('odd')|list }} {{ [1,2,3,4]|reject('odd')|list }} {{ [0, 1, '', 'a']|select|list }} {{ [{'a': 1}, {'a': 0}, {}]|selectattr('a')|list }} {{ [{'a': 1}, {}]|rejectattr('a')|list }} {{ [{'a': 1}, {}]|selectattr('a', 'defined')|list }} {{ ['a', 'b']|map('upper')|list }} {{ ['a', 'b']|map('replace', 'a', 'x')|list }} {{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }} {{ [{}]|map(attribute='a', default='q')|list }}
{{ '3'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '3.7'|int }} {{ 3.9|int }} {{ '0x1f'|int(0, 16) }} {{ '1e3'|float }} {{ 'x'|float }} {{ 3|float }} {{ none|int }} {{ true|int }} {{ ' 12 '|int }} {{ '1_000'|int }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, 'floor') }} {{ 42.51|round(0, 'ceil') }} {{ 3|round }} {{ -2|abs }} {{ -2.5|abs }}
{{ x|default('d') }} {{ ''|default('d') }}|{{ ''|default('d', true) }} {{ none|default('d') }} {{ none|d('e', true) }} {{ x|default }}|
{{ 'line1\nline2\n\nline3'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ 'a\n'|indent(2) }}|
{{ 'hello big world'|truncate(10) }} {{ 'hello big world'|truncate(10, true) }} {{ 'hello big world'|truncate(10, false, '!', 0) }} {{ 'short'|truncate(3) }} {{ 'hello world'|wordcount }} {{ '<b>x</b>  <!-- c --> y'|striptags }} {{ '<a&"\'>'|escape }} {{ 'a b/ü'|urlencode }} {{ 13000|filesizeformat }} {{ 1|filesizeformat }} {{ 123|filesizeformat }} {{ 1048576|filesizeformat(true) }}
<a{{ {'class': 'x y', 'n': 3, 'none': none, 'u': nope, 'q': '<"&' ~ "'", 'f': 1.5, 't': true}|xmlattr }}>{{ {}|xmlattr }}|{{ {'a': 1, 'b': 2}|xmlattr(false) }}|{{ {'a&b': [1, '>']}|xmlattr(autospace=0) }}
{{ {1: 2}|xmlattr }}
{{ {'a b': 1}|xmlattr }}
{{ {'a=': 1}|xmlattr }}
{{ {'a b': none}|xmlattr }}|
{{ [1]|xmlattr }}
{{ 'x'|xmlattr }}
{{ 'a' is string }} {{ 1 is number }} {{ 1 is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ true is integer }} {{ true is number }} {{ {} is mapping }} {{ [] is sequence }} {{ 'a' is sequence }} {{ {} is sequence }} {{ 1 is sequence }} {{ none is none }} {{ [] is iterable }} {{ 1 is iterable }} {{ x is iterable }} {{ x is sequence }} {{ range is callable }} {{ 3 is odd }} {{ 4 is even }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 1 is in [1] }} {{ 'a' is in 'abc' }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ none is sameas none }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 1 is not none }} {{ not 1 is none }}
{{ (messages|selectattr('role', 'equalto', 'zzz')) is defined }}{% if messages|selectattr('role', 'equalto', 'zzz') %}truthy{% endif %}
{% set g = [1,2,3]|select('odd') %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% endfor %}|{{ g|list }}
{% set g = [1,2,3]|map('string') %}{{ g|first }}{{ g|list }}
{{ [1,2,3]|map('string')|length }}
{{ [1,2]|map('string')|last }}
{{ range(3) }} {{ range(1, 10, 3)|list }} {{ range(3)[1] }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ range(3)|length }}
{{ dict(a=1, b=2) }} {{ dict([('a', 1)]) }} {{ dict({'x': 1}, y=2) }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values()|list }} {{ {'a': 1}.items() }} {{ {'a': 1}.items()|list }} {{ {}.keys()|length }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }} {% set j = joiner('|') %}{{ j() }}x{{ j() }}y{{ j() }}
{% for i in [1,2,3] %}{{ loop.cycle('odd', 'even') }} {% endfor %}{% for i in [1,1,2] %}{{ loop.changed(i) }} {% endfor %}
{%- for item in [{'c': [{'c': []}]}, {'c': []}] recursive %}{{ loop.depth }}{% if item.c %}[{{ loop(item.c) }}]{% endif %}{% endfor %}
{% raw %}{{ not rendered }} {% if %}{% endraw %} after
{#- comment -#}   x   {# another #}
a {{- ' b ' -}} c {%- if true -%} d {%- endif -%} e
  {% if true %}
line
  {% endif %}
end
	  {%+ if true %}x{% endif +%}
y
{{ messages[0].content[0] }} {{ messages[0]|length }} {{ messages[0].keys()|list }} {{ messages[1:]|length }} {{ messages[-1]['content'] }}
{{ bos }}{{ '\u0041\x42\103\q\\' }} {{ 'a' 'b' }} {{ "x" "y" ~ 'z' }}
{{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1_000 }} {{ 1.5e3 }} {{ 10.0e-2 }}
{{ [1,2,3].index(2) }} {{ [1,1].count(1) }} {{ messages.append is defined }}
{{ messages.append(1) }}
{{ {'a':1}.update({'b': 2}) }}
{{ ''.__class__ }}|{{ ().__class__.__mro__ }}
{{ 'abc'.__len__ is defined }}
{{ raise_exception('nope: ' ~ 1) }}
{{ strftime_now('%d %b %Y %H:%M') }}
{{ nosuchfilter|nosuch }}
{% if false %}{{ 1|nosuch }}{% endif %}ok
{{ 1 is nosuchtest }}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% set x = 5 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 6 %}{{ m() }}{% for i in [1] %}{% set x = 7 %}{{ m() }}{% endfor %}
{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% endif %}{{ sys }}{% if false %}{% set q = 1 %}{% endif %}{{ q }}
{{ messages[0].content is string }} {{ messages[0].content is mapping }} {{ messages[0].content is iterable and messages[0].content is not string }}
{{ 5 - - 3 }} {{ -3 ** 2 }} {{ not true and false }} {{ 1 or 2 }} {{ 0 or '' or 'x' }} {{ 1 and 0 }} {{ 'a' and 'b' }}
{{ -3|abs }} {{ 1 + 2|string }}
{{ 'a' * 3 }} {{ [1] * 2 }} {{ 3 * 'ab' }} {{ 'a' * -1 }}|
{{ 1 / 0 }}
{{ 'a' + 1 }}
{{ 'ab' 'cd'[0] }} {{ ('a', 'b')[1] }} {{ {'a': {'b': [1, 2]}}.a.b[1] }} {{ {'a': {'b': [1, 2]}}['a']['b'].1 }}
{{ "a" if "b" is defined and "c" else "d" }} {{ messages is iterable }} {{ (1 if 0) is defined }}
{% generation %}gen {{ 1 }}{% endgeneration %} after
{% block name %}in block {{ 1 }}{% endblock %}
{% autoescape false %}<{{ '<' }}>{% endautoescape %}
{{ 1, 2 }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ (1, 2,) }}
{{ true|string }} {{ 1.5|string ~ 'x' }} {{ [true, none, 1.0]|string }} {{ "a"|safe }} {{ ['a']|string|length }}
{{ 'x' ~ undefined_thing ~ 'y' }} {{ [undefined_thing] }} {{ undefined_thing|length }} {{ undefined_thing|list }} {{ undefined_thing|upper }}|{{ undefined_thing|join }}|{{ undefined_thing|string }}|{{ undefined_thing|first is defined }}
{{ undefined_thing|int }}
{{ none|length }}
{{ none.x }}|{{ none['x'] is defined }}|{{ 1 .x is defined }}
{{ (1).real }}
{{ loop is defined }} {{ self is defined }} {{ namespace(a=1).a }} {{ namespace(a=1).b is defined }} {{ namespace({'k': 'v'}).k }}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set d = {'a': 1} %}{% set d.a = 2 %}
{% for c in 'héy' %}{{ c }}.{% endfor %} {{ 'a'|attr('upper') is defined }} {{ {'x': 1}|attr('x') is defined }}
{% print 1, 2 %} {% set x %}{% endset %}[{{ x }}]
{{ messages|map(attribute='content')|map('trim')|list|tojson }} {{ messages|rejectattr('role', 'in', ['user', 'system'])|map(attribute='role')|list }}
{{ messages|selectattr('role', 'ne', 'user')|first }} {{ (messages|last).role }} {{ messages|last|attr('role') is defined }}
{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
{{ 1.0|int|string }} {{ '%.1f'|format(2.25) }} {{ '%5.1f|%-8s|%+d' % (3.14159, 'ab', 5) }} {{ '%r' % 'a' }} {{ '%c' % 'a' }}
{{ 'ß'|capitalize }} {{ 'ﬁx'|title }} {{ "they're bill's"|title }} {{ "they're"|capitalize }} {{ "o'neil".title() }} {{ 'x-y (z) [w]'|title }}
{% if 1 == 1 and not (2 == 3 or 'a' == 'b') %}yes{% elif true %}no{% else %}never{% endif %}
{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages|length }}{% for m in loop_messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}
{{ [[1, 2], [3, 4]]|map('sum')|list }} {{ [[1, 2], [3, 4]]|map('first')|list }} {{ [[1,2]]|map(attribute=1)|list }} {{ ['1','2']|map('int')|sum }}
{{ {'b': {'z': 1}, 'a': 2}|tojson(indent=4, sort_keys=true) }}
{{ [1, 2, 3]|join(' ') if messages else 'x' }} {{ (messages | length) > 1 }} {{ messages[0]['content'] | trim | length }}
{{ "a\
b" }} {{ 'tab\there' }}
{% for t in tools or [] %}{{ t.function.name }}:{{ t.function.parameters.properties.items() | list | length }} {{ t.function.parameters.properties.keys() | join(',') }}{% for k, v in t.function.parameters.properties | dictsort %} {{ k }}={{ v.type }}{% endfor %}{% endfor %}
{{ tools | tojson if tools else 'no tools' }} {{ tools is none }} {{ documents is none }} {{ tools|length if tools }}
{{ (tools|first).function|tojson }} {{ tools[0]['function']['parameters']|tojson(indent=2) }}
{%- set ns = namespace(is_first=true, sys='') -%}{%- for m in messages -%}{%- if m.role == 'system' -%}{%- if ns.is_first -%}{% set ns.sys = ns.sys + m.content %}{% set ns.is_first = false %}{%- else -%}{% set ns.sys = ns.sys + '\n\n' + m.content %}{%- endif -%}{%- endif -%}{%- endfor -%}{{ ns.sys }}
{{ '' is defined }} {{ [] == [] }} {{ {} == [] }} {{ none == none }} {{ none == false }} {{ 0 == false }} {{ '' == false }} {{ 1.5 > true }}
{{ messages[0].content.split('e')[0].strip('\n').lstrip('\n') }} {{ messages[0]['content'].startswith('You') }} {{ 'a' in messages[0] }} {{ 'role' in messages[0] and messages[0]['role'] in ['system', 'developer'] }}
{{ ((1, 'a'), [2]) }} {{ {'k': (1,)} }} {{ {1: 'a', 'b': none} }} {{ 'a\'b"c' }} {{ ['a\'b"c', "x'y"] }}
{% set x = [] %}{% for i in range(3) %}{% set x = x + [i] %}{% endfor %}{{ x }} {% set ns = namespace(x=[]) %}{% for i in range(3) %}{% set ns.x = ns.x + [i * 2] %}{% endfor %}{{ ns.x }}
{%if true%}tight{%endif%}{{'x'}}{{-'y'-}}  z{{+'w'}}
{% for i in range(2) -%}
  {{ i }}
{% endfor %}
{% for i in range(2) %}   
  [{{ i }}]  
{% endfor %}tail
x {# c #} y
{# c #}
z
{{ 'end' }}
''' 

MORE = [
    '  {% if true %}\n  line\n  {% endif %}\nend\n',
    '\t {%+ if true %}x{% endif +%}\ny\n',
    '{% for i in range(2) -%}\n  {{ i }}\n{% endfor %}\n',
    '{% for i in range(2) %}   \n  [{{ i }}]  \n{% endfor %}tail',
    'x {# c #} y\n{# c #}\nz\n\n',
    '{% set b %}  hello {{ 1 }}\n{% endset %}[{{ b }}]',
    'a\r\nb\rc\n',
    '{%- if true %}\r\n  x\r\n{%- endif %}\r\n',
    "{{ 'a\r\nb' }}",
    '{{ "a\\\nb" }}',
    "   {{- 'x' }}   {# y -#}   \n\n z",
    '{% raw -%}\n  {{ x }}\n{%- endraw %}\nq',
    '  {% raw %}\n r\n  {% endraw %}\n s',
    '{% if true %}\n\n  a\n\n{% endif %}\n\nb',
    "{{ 'unclosed",
    '{% if %}',
    '{% endif %}',
    '{{ }}',
    '{% for x in %}{% endfor %}',
    '{{ 1 +}}',
    '{% set 1 = 2 %}',
    '{% if true %}',
    '{{ (1 }}',
    '{{ a b }}',
    '{% unknown %}',
    '{# open',
    '{% raw %} open',
    "{{ 'a' | }}",
    '{{ x is }}',
    '{% macro f(a=1, b) %}{% endmacro %}',
    '{{ f(a=1, 2) }}',
    '{{ [1 2] }}',
    '{{ 1 is even is odd }}',
    "{% include 'x' %}",
    '{% for i in range(3) %}{{ i }}{% else %}x',
    '{{ @ }}',
    'plain',
    '',
    '\n',
    '\n\n',
    "{{ ')' }}",
    '}} %} #}',
    '{ { } }',
    "{% if true %}{{ '}}' }}{% endif %}",
]

SNIPPETS = SNIPS.strip("\n").split("\n") + MORE
