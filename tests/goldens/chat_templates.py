"""Chat templates in the style of the families that models publish, written for this project, and the conversations they are tried on."""

LLAMA2 = r"""{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must take turns: user, assistant, user ...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

LLAMA3 = r"""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The system message is taken out, so that it stands where we want it. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Today: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "These functions may be called, as {\"name\": name, \"parameters\": {...}}:\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("there is no first user message to put the tools into") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {{- "Answer with a call of one of these functions.\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one tool call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

CHATML = r"""{% for message in messages %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

QWEN3 = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "# Tools\n\nSignatures stand between <tools></tools>:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""

MISTRAL = r"""{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}

{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("after the system message, user and assistant take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("a tool call's id has nine characters") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("a role that is neither user, assistant nor tool") }}
    {%- endif %}
{%- endfor %}
"""

GEMMA = r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("user and model take turns") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("content of no known type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""

PHI3 = r"""{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""

DEEPSEEK = r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{%- if not message['content'] %}{{'<｜Assistant｜><｜tool▁calls▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\n' + '```json' + '\n' + tool['function']['arguments']|tojson + '\n' + '```'}}{%- else %}{{'<｜Assistant｜>' + message['content'] + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name']}}{%- endif %}{%- set ns.is_first = true -%}{%- else %}{{'\n' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name']}}{%- endif %}{%- endfor %}{{'<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<｜tool▁outputs▁begin｜>' + message['content']|string}}{%- set ns.is_output_first = false %}{%- else %}{{'\n' + message['content']|string}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\n'}}{% endif %}"""

COMMAND = r'''{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% set loop_messages = messages[1:] %}{% else %}{% set system_message = 'Answer well.' %}{% set loop_messages = messages %}{% endif %}
{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic_type_map[json_spec.type] is defined %}
    {{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
    {{- "list[" +  json_to_python_type(json_spec|items) + "]"}}
{%- elif json_spec.type == "object" %}
    {%- if json_spec.additionalProperties is defined %}
        {{- "dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']'}}
    {%- else %}
        {{- "dict" }}
    {%- endif %}
{%- elif json_spec.type is iterable %}
    {{- "Union[" }}
    {%- for t in json_spec.type %}
      {{- json_to_python_type({"type": t}) }}
      {%- if not loop.last %}
        {{- "," }}
    {%- endif %}
    {%- endfor %}
    {{- "]" }}
{%- else %}
    {{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- for tool in tools or [] %}{%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
```python
def {{ tool.name }}({% for param_name, param_fields in tool.parameters.properties|items %}{{ param_name }}: {% if not param_fields.required %}Optional[{{ json_to_python_type(param_fields) }}] = None{% else %}{{ json_to_python_type(param_fields) }}{% endif %}{% if not loop.last %}, {% endif %}{% endfor %}) -> dict:
    """{{ tool.description }}{% for k, v in tool.parameters.properties.items() %}

    {{ k }} ({{ json_to_python_type(v) }}): {{ v.description }}
{%- endfor %}
    """
```
{%- endfor %}
{{ '<|SYSTEM|>' + system_message }}{% for message in loop_messages %}{{ '<|' ~ message.role | upper ~ '|>' ~ (message.content if message.content is string else message.content | map(attribute='text', default='') | select | join('\n')) }}{% endfor %}'''

GRANITE = r"""{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set system_message = "Today's date is " + strftime_now('%B %d, %Y') + "." %}
{%- if tools and documents %}{%- set system_message = system_message + " Tools and documents." %}
{%- elif tools %}{%- set system_message = system_message + " Tools." %}
{%- elif documents %}{%- set system_message = system_message + " Documents." %}{%- endif %}{%- set loop_messages = messages %}{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\n' }}
{%- if tools %}{{- '<|start_of_role|>tools<|end_of_role|>' }}{{- tools | tojson(indent=4) }}{{- '<|end_of_text|>\n' }}{%- endif %}
{%- if documents %}{{- '<|start_of_role|>documents<|end_of_role|>' }}
{%- for document in documents %}{{- 'Document ' + loop.index | string + '\n' }}{{- document['text'] }}{%- if not loop.last %}{{- '\n\n'}}{%- endif%}{%- endfor %}
{{- '<|end_of_text|>\n' }}{%- endif %}
{%- for message in loop_messages %}{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\n' }}
{%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant' }}{%- if controls %}{{- ' ' + controls | tojson()}}{%- endif %}{{- '<|end_of_role|>' }}{%- endif %}{%- endfor %}"""

VISION = r"""{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system
You see.<|im_end|>
{% endif %}<|im_start|>{{ message['role'] }}
{% if message['content'] is string %}{{ message['content'] }}<|im_end|>
{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}<|image|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
VISION = "{% set image_count = namespace(value=0) %}" + VISION

GENERATION = r"""{% for message in messages -%}
<|{{ message.role }}|>
{% if message.role == 'assistant' %}{% generation %}{{ message.content }}{{ eos_token }}{% endgeneration %}
{% else %}{{ message.content }}
{% endif %}{% endfor %}"""

SMOL = r"""{#- what stands where -#}
{%- set xml_tools = [] %}{%- for t in tools or [] %}{%- set xml_tools = xml_tools + [t.function.name] %}{%- endfor %}
{%- set mode = "/no_think" if enable_thinking is defined and not enable_thinking else "/think" %}
{%- set custom = (messages[0].content if messages[0].role == "system" else "") | replace("/no_think", "") | replace("/think", "") | trim %}
<|im_start|>system
## Metadata

Date: {{ strftime_now("%d %B %Y") }}
Mode: {{ mode }}
{% if custom %}
{{ custom }}
{% endif %}
<|im_end|>
{% for message in messages if message.role != "system" %}
{% set content = message.content if message.content is string else "" %}
{% if message.role == "user" %}
{{ "<|im_start|>" + message.role + "\n"  + content + "<|im_end|>\n" }}
{%- elif message.role == "assistant" %}
{{ "<|im_start|>assistant\n" ~ ("<think>\n\n</think>\n" if mode == "/no_think") ~ content.lstrip("\n") ~ "<|im_end|>\n" }}
{%- else %}
{{ "<|im_start|>" ~ message.role ~ "\n" ~ content ~ "<|im_end|>\n" }}
{%- endif %}
{% endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\n" }}{% endif %}"""

FALCON = r"""{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{% if message['role'] == 'system' %}{{ 'System: ' }}{% elif message['role'] == 'user' %}{{ 'User: ' }}{% elif message['role'] == 'assistant' %}{{ 'Falcon: ' }}{% endif %}{{ message['content'] }}{% endfor %}{% if add_generation_prompt %}{{ '\n' + 'Falcon:' }}{% endif %}"""
ZEPHYR = r"""{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

# In the manner of gpt-oss: tools written down as TypeScript by macros that call themselves, one call a message, channels.
HARMONY = r"""{#-
  Beside messages and tools: "model_identity", "reasoning_effort", "builtin_tools" (a list of names).
 #}
{%- macro type_of(spec, required, may_be_null=false) -%}
    {%- if spec.type == "array" -%}
        {%- if spec['items'] -%}
            {%- if spec['items']['type'] in ("number", "integer") -%}
                {{- "number[]" }}
            {%- else -%}
                {%- set inner = type_of(spec['items'], required) -%}
                {%- if inner == "object | object" or inner|length > 50 -%}
                    {{- "any[]" }}
                {%- else -%}
                    {{- inner + "[]" }}
                {%- endif -%}
            {%- endif -%}
        {%- else -%}
            {{- "any[]" }}
        {%- endif -%}
        {%- if spec.nullable or may_be_null -%}
            {{- " | null" }}
        {%- endif -%}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping and spec.type[0] is defined -%}
        {%- if spec.type | length > 1 -%}
            {{- spec.type | join(" | ") }}
        {%- else -%}
            {{- spec.type[0] }}
        {%- endif -%}
    {%- elif spec.oneOf -%}
        {%- for variant in spec.oneOf -%}
            {{- type_of(variant, required) -}}
            {%- if not loop.last %}
                {{- " | " }}
            {% endif -%}
        {%- endfor -%}
    {%- elif spec.type == "string" -%}
        {%- if spec.enum -%}
            {{- '"' + spec.enum|join('" | "') + '"' -}}
        {%- else -%}
            {{- "string" }}
        {%- endif -%}
    {%- elif spec.type in ["number", "integer"] -%}
        {{- "number" }}
    {%- elif spec.type == "object" -%}
        {%- if spec.properties -%}
            {{- "{\n" }}
            {%- for key, value in spec.properties.items() -%}
                {{- key -}}
                {%- if key not in (spec.required or []) -%}
                    {{- "?" }}
                {%- endif -%}
                {{- ": " }}
                {{ type_of(value, spec.required or []) }}
                {%- if not loop.last -%}
                    {{-", " }}
                {%- endif -%}
            {%- endfor -%}
            {{- "}" }}
        {%- else -%}
            {{- "object" }}
        {%- endif -%}
    {%- else -%}
        {{- "any" }}
    {%- endif -%}
{%- endmacro -%}
{%- macro tool_space(name, tools) -%}
    {{- "## " + name + "\n\nnamespace " + name + " {\n\n" }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\ntype " + tool.name + " = " }}
        {%- if tool.parameters and tool.parameters.properties %}
            {{- "(_: {\n" }}
            {%- for key, spec in tool.parameters.properties.items() %}
                {%- if spec.description %}
                    {{- "// " + spec.description + "\n" }}
                {%- endif %}
                {{- key }}
                {%- if key not in (tool.parameters.required or []) -%}
                    {{- "?" }}
                {%- endif -%}
                {{- ": " + type_of(spec, tool.parameters.required or []) }}
                {%- if spec.default is defined -%}
                    {{- ", // default: " + (spec.default if spec.enum else spec.default|tojson) }}
                {%- endif -%}
                {{- ",\n" }}
            {%- endfor %}
            {{- "}) => any;\n\n" }}
        {%- else -%}
            {{- "() => any;\n\n" }}
        {%- endif -%}
    {%- endfor %}
    {{- "} // namespace " + name }}
{%- endmacro -%}
{%- macro system_text() -%}
    {%- if model_identity is not defined %}
        {%- set model_identity = "You are a model with channels." %}
    {%- endif %}
    {{- model_identity + "\nCurrent date: " + strftime_now("%Y-%m-%d") + "\n\n" }}
    {%- if reasoning_effort is not defined %}
        {%- set reasoning_effort = "medium" %}
    {%- endif %}
    {{- "Reasoning: " + reasoning_effort + "\n\n" }}
    {%- if builtin_tools %}
        {%- set there = namespace(browser=false, python=false) %}
        {%- for tool in builtin_tools %}
            {%- if tool == "browser" %}
                {%- set there.browser = true %}
            {%- elif tool == "python" %}
                {%- set there.python = true %}
            {%- endif %}
        {%- endfor %}
        {{- "# Tools" ~ (there.browser and " browser" or "") ~ (" python" if there.python) ~ "\n\n" }}
    {%- endif -%}
    {{- "# Channels: analysis, commentary, final. Each message has one." }}
    {%- if tools -%}
        {{- "\nCalls go to the commentary channel: 'functions'." }}
    {%- endif -%}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}
{{- system_text() }}
{{- "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer = messages[0].content %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set developer = "" %}
    {%- set rest = messages %}
{%- endif %}
{%- if developer or tools %}
    {{- "<|start|>developer<|message|>" }}
    {%- if developer %}
        {{- "# Instructions\n\n" + developer + "\n\n" }}
    {%- endif %}
    {%- if tools -%}
        {{- "# Tools\n\n" + tool_space("functions", tools) }}
    {%- endif -%}
    {{- "<|end|>" }}
{%- endif %}
{%- set last = namespace(name=none) %}
{%- for message in rest -%}
    {%- if message.role == 'assistant' -%}
        {%- if "content" in message and "<|channel|>final<|message|>" in message.content %}
            {{- raise_exception("channels belong into fields of their own") }}
        {%- endif %}
        {%- if "tool_calls" in message %}
            {%- set later = namespace(found=false) %}
            {%- for other in rest[loop.index:] %}
                {%- if other.role == 'assistant' and "tool_calls" not in other %}
                    {%- set later.found = true %}
                {%- endif %}
            {%- endfor %}
            {%- set call = message.tool_calls[0] %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {%- if message.content and not later.found %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.content + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary " }}
            {{- (call.content_type if call.content_type is defined else "json") + "<|message|>" + call.arguments|tojson + "<|call|>" }}
            {%- set last.name = call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last.name is none %}
            {{- raise_exception("a tool's answer without a call") }}
        {%- endif %}
        {{- "<|start|>functions." + last.name + " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}"""

TEMPLATES = {name.lower(): text for name, text in globals().items() if name.isupper()}

PLAIN = [{"role": "system", "content": "You are a helpful \u00e9 assistant."}, {"role": "user", "content": "  Hi there! \n"},
         {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello <b> \"q\" 😀"}, {"role": "user", "content": "Bye"}]
CALL = {"type": "function", "id": "abcdefghi", "function": {"name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": 2, "exact": True, "at": 1.0}}}
CONVERSATIONS = {
    "plain": PLAIN,
    "no_system": PLAIN[1:],
    "one": [{"role": "user", "content": "x"}],
    "nulls": [{"role": "user", "content": "x", "tool_calls": None}, {"role": "assistant", "content": "y", "reasoning": "because"}],
    "wrong_turns": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    "tools": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "tool_calls": [CALL]},
              {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "21.5"}, {"role": "assistant", "content": "Warm."},
              {"role": "user", "content": "Thanks"}],
    "two_results": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "so", "tool_calls": [CALL, CALL]},
                    {"role": "tool", "content": "1", "tool_call_id": "1"}, {"role": "tool", "content": "2", "tool_call_id": "2"}],
    "blocks": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " What is this? "}]},
               {"role": "assistant", "content": [{"type": "text", "text": "A cat"}]}],
}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Get the weather's \"state\" <now>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "\u00fc", "required": True}, "days": {"type": "integer", "default": 1.0},
                                     "units": {"type": ["string", "null"]}, "map": {"type": "object", "additionalProperties": {"type": "number"}}},
    "required": ["city"]}}}, {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}]
DOCUMENTS = [{"title": "A", "text": "first"}, {"title": "B", "text": "second"}]
