// corpus/data_rare.c: training prompts full of rare tokens: identifiers, addresses, JSON and YAML,
// LaTeX, hexadecimal.
#include "corpus/prompts_data.h"

static const char *const camel[] = {
    "@{*verb}@{*A:adjective}@{*A:noun}", "@{*verb}@{*A:noun}By@{*A:noun}Id",
    "is@{*A:adjective}@{*A:noun}",       "@{*noun}@{*A:noun}Factory",
    "on@{*A:noun}@{*A:verb}Complete",    "@{*verb}All@{*A:adjective}@{*A:noun}s",
    "try@{*A:verb}@{*A:noun}OrThrow",    "@{*adjective}@{*A:noun}Count@{n:2:64}",
};

static const char *const snake[] = {
    "@{*verb}_@{*adjective}_@{*noun}", "@{*noun}_@{*noun}_@{hex:4}",
    "k_max_@{*noun}_@{*noun}s",        "__@{*noun}_@{*verb}_impl",
    "@{*adjective}_@{*noun}_t",        "test_@{*verb}_@{*noun}_when_@{*adjective}",
};

static const char *const host[] = {
    "api.@{*noun}-@{*noun}.example",
    "@{*noun}.internal.example",
    "cdn@{n:1:9}.@{*adjective}-@{*noun}.example",
    "[2001:db8:@{hex:4}::@{hex:2}]:@{n:1024:65535}",
    "10.@{n:0:255}.@{n:0:255}.@{n:1:254}:@{n:1024:65535}",
    "@{*noun}.@{*noun}.svc.cluster.local",
};

static const char *const url[] = {
    "https://@{*host}/v@{n:1:4}/@{*noun}s/@{uuid}?expand=@{*noun}&limit=@{n:5:200}",
    "https://@{*host}/@{*verb}/"
    "@{*noun}?since=20@{n:10:29}-0@{n:1:9}-@{n:10:28}T@{n:10:23}%3A@{n:10:59}Z&sig=@{b64:22}",
    "s3://@{*adjective}-@{*noun}-@{digits:6}/year=20@{n:10:29}/"
    "part-@{digits:5}-@{uuid}.snappy.parquet",
    "ssh://git@@{*host}/@{*noun}/@{*noun}.git#@{hex:40}",
    "postgresql://svc_@{*noun}:@{b64:12}@@{*host}/@{*noun}_prod?sslmode=verify-full",
    "amqps://@{*host}/%2F@{*noun}?heartbeat=@{n:5:60}&channel_max=@{n:16:2048}",
};

static const char *const json[] = {
    "{\"@{*noun}Id\": \"@{uuid}\", \"@{*adjective}\": true, \"@{*noun}\": {\"@{*noun}\": "
    "@{n:1:999}, \"sha256\": \"@{hex:64}\"}, \"tags\": [\"@{*adjective}\", \"@{*adjective}\"], "
    "\"ts\": \"20@{n:10:29}-0@{n:1:9}-@{n:10:28}T0@{n:0:9}:@{n:10:59}:@{n:10:59}.@{digits:3}Z\"}",
    "[{\"op\": \"replace\", \"path\": \"/@{*noun}/@{n:0:9}/@{*noun}\", \"value\": \"@{hex:8}\"}, "
    "{\"op\": \"remove\", \"path\": \"/@{*noun}/@{*adjective}\"}, {\"op\": \"test\", \"path\": "
    "\"/rev\", \"value\": @{n:2:90}}]",
    "{\"@type\": \"type.example/@{*noun}.v@{n:1:3}.@{*A:noun}\", \"@{*noun}s\": [{\"k\": "
    "\"@{hex:6}\", \"v\": -@{n:1:99}.@{digits:4}e-@{n:1:9}}, {\"k\": \"@{hex:6}\", \"v\": null}], "
    "\"next\": \"@{b64:28}==\"}",
    "{\"level\": \"error\", \"logger\": \"@{*noun}.@{*noun}\", \"msg\": \"@{*verb} failed\", "
    "\"trace_id\": \"@{hex:32}\", \"span_id\": \"@{hex:16}\", \"attempt\": @{n:2:7}, \"err\": "
    "{\"code\": \"E_@{digits:4}\", \"cause\": \"@{*adjective} @{*noun}\"}}",
};

static const char *const yaml[] = {
    "@{noun}:\n  @{noun#2}: &@{noun#2}\n    image: "
    "registry.example/@{noun}/@{noun#3}@@{adjective}:@{hex:12}\n    replicas: @{n:1:12}\n    "
    "env:\n      - {name: @{noun#3}_URL, value: \"@{url}\"}\n  @{noun#4}:\n    <<: *@{noun#2}\n    "
    "replicas: @{n:1:4}",
    "on:\n  schedule:\n    - cron: \"@{n:0:59} @{n:0:23} * * @{n:0:6}\"\njobs:\n  @{verb}:\n    "
    "runs-on: @{adjective}-runner\n    steps:\n      - name: @{verb#2} @{noun}\n        run: |\n   "
    "       ./@{verb#2}.sh --@{noun}=@{hex:7} \\\n            --retries @{n:2:9}",
    "- @{noun}: ~\n  @{noun#2}: 0o7@{digits:2}\n  @{noun#3}: 1_0@{digits:2}\n  @{adjective}: yes\n "
    " when: 20@{n:10:29}-0@{n:1:9}-@{n:10:28}\n- !@{noun} [ @{hex:4}, \"@{hex:4}\", "
    "'@{adjective#2}', @{n:1:9}e@{n:2:6} ]",
};

static const char *const latex[] = {
    "\\sum_{k=@{n:0:3}}^{\\infty} \\frac{(-1)^{k} x^{@{n:2:5}k+@{n:1:4}}}{(@{n:2:4}k)!}",
    "\\int_{\\partial\\Omega} \\left( \\nabla \\phi \\cdot \\hat{n} \\right)^{@{n:2:4}} \\, "
    "\\mathrm{d}S = \\iint_{\\Omega} \\Delta \\phi^{@{n:2:5}} \\, \\mathrm{d}V",
    "\\begin{pmatrix} \\cos\\theta & -\\sin\\theta \\\\ \\sin\\theta & \\cos\\theta "
    "\\end{pmatrix}^{\\!@{n:2:9}} \\otimes \\mathbf{I}_{@{n:2:8}}",
    "\\mathbb{E}_{q_{\\phi}(z \\mid x)}\\bigl[ \\log p_{\\theta}(x \\mid z) \\bigr] - "
    "\\beta_{@{n:1:9}} \\, \\mathrm{KL}\\bigl( q_{\\phi} \\,\\Vert\\, p \\bigr)",
    "\\hbar \\frac{\\partial}{\\partial t} \\Psi_{@{n:1:9}}(\\mathbf{r}, t) = \\Bigl[ "
    "-\\tfrac{\\hbar^{2}}{@{n:2:4}m} \\nabla^{2} + V_{\\mathrm{ext}} \\Bigr] \\Psi_{@{n:1:9}}",
    "\\forall \\varepsilon > 0 \\; \\exists N_{@{n:1:9}} \\in \\mathbb{N} : n \\ge N \\implies "
    "\\left| a_{n} - @{n:2:99} \\right| < \\varepsilon^{@{n:2:4}}",
};

static const char *const hexdump[] = {
    "00000000  @{hex:2} @{hex:2} @{hex:2} @{hex:2} 0d 0a 1a 0a  00 00 00 @{hex:2} @{hex:2} "
    "@{hex:2} @{hex:2} @{hex:2}\n00000010  @{hex:2} @{hex:2} 00 00 @{hex:2} @{hex:2} 00 01  "
    "@{hex:2} @{hex:2} @{hex:2} @{hex:2} 00 00 00 00",
    "7f 45 4c 46 0@{n:1:2} 01 01 00 @{hex:2} @{hex:2} @{hex:2} @{hex:2} @{hex:2} @{hex:2} 00 00 "
    "0@{n:2:3} 00 3e 00 01 00 00 00 @{hex:2} @{hex:2} @{hex:2} 00",
    "0x@{hex:8}: 0x@{hex:16} 0x@{hex:16}\n0x@{hex:8}: 0xffffffff@{hex:8} "
    "0x00000000@{hex:8}\n0x@{hex:8}: 0x@{hex:16} 0xdeadbeef@{hex:8}",
    "45 00 00 @{hex:2} @{hex:2} @{hex:2} 40 00 40 06 @{hex:2} @{hex:2} 0a @{hex:2} @{hex:2} "
    "@{hex:2} c0 a8 @{hex:2} @{hex:2} @{hex:2} @{hex:2} 01 bb @{hex:2} @{hex:2} @{hex:2} @{hex:2}",
};

static const char *const log_line[] = {
    "20@{n:10:29}-0@{n:1:9}-@{n:10:28}T@{n:10:23}:@{n:10:59}:@{n:10:59}.@{digits:6}Z WARN "
    "[@{*noun}-@{n:1:64}] c.e.@{*noun}.@{*A:noun}Handler - @{*camel} took @{n:900:90000} ms "
    "(id=@{uuid})",
    "kernel: [@{digits:6}.@{digits:6}] @{*noun}@{n:0:9}: page fault at 0xffff@{hex:12}, ip "
    "0x@{hex:8}, error @{n:4:15} in lib@{*noun}.so.@{n:1:9}[@{hex:12}+@{hex:5}]",
    "@{*host} - - [@{n:10:28}/Mar/20@{n:10:29}:@{n:10:23}:@{n:10:59}:@{n:10:59} +0000] \"GET "
    "/@{*noun}/@{hex:10}?q=%E2%82%AC HTTP/1.1\" @{n:400:504} @{n:100:99999} \"-\" "
    "\"@{*A:noun}Bot/@{n:1:9}.@{n:0:20}\"",
    "panic: runtime error: index out of range [@{n:10:99}] with length @{n:1:9}\n\ngoroutine "
    "@{n:1:900} [running]:\nmain.@{*camel}(0xc000@{hex:6}, "
    "0x@{hex:2})\n\t/src/@{*noun}/@{*noun}.go:@{n:10:900} +0x@{hex:3}",
    "Traceback (most recent call last):\n  File \"/srv/@{*noun}/@{*snake}.py\", line @{n:10:900}, "
    "in "
    "@{*snake}\n    return self._@{*noun}[@{hex:8}]\nKeyError: '@{hex:8}'",
};

static const char *const regex[] = {
    "^(?:@{noun}|@{noun#2})-(?<id>[0-9a-f]{@{n:4:12}})(?:\\.(?:tar\\.)?gz)?$",
    "(?i)\\b@{adjective}[_-]?@{noun}s?\\b(?!\\s*=)",
    "^\\s*#\\s*define\\s+([A-Z_][A-Z0-9_]{@{n:2:9},})\\s+(0[xX][0-9a-fA-F]+|\\d+)[uUlL]*",
    "(\\d{1,3}(?:[.,]\\d{3})*)(?:[.,](\\d{2}))?\\s?(?:EUR|USD|CHF)",
    "^(([^<>()\\[\\]\\\\.,;:\\s@\"]+)(\\.[^<>()\\[\\]]+)*)@[a-z0-9.-]{@{n:2:9},}$",
};

static const char *const request[] = {
    "Say what each part means.",
    "What looks wrong in it?",
    "Rewrite it so that a person can read it.",
    "Reproduce it exactly, then change one character and say which.",
    "List all identifiers in it, one per line.",
    "Which parts are secrets and should be removed before sharing?",
    "Give a schema for it.",
    "Write a parser for it in ten lines.",
    "Which standard does it follow?",
    "Give three more of the same form.",
};

static const char *const target[] = {
    "YAML",
    "TOML",
    "an INI file",
    "a C struct with initializer",
    "a Python dataclass",
    "XML",
    "a SQL insert statement",
    "an S-expression",
    "a Markdown table",
    "a GraphQL type",
    "a protobuf message",
    "environment variables",
    "a TypeScript type and a value of it",
};

static const char *const prompt[] = {
    "Convert this to @{target}:\n\n```\n@{json}\n```",
    "Convert this to @{target} and back, and say what is lost:\n\n```json\n@{json}\n```",
    "```yaml\n@{yaml}\n```\n\n@{request}",
    "Is this valid YAML 1.2, and what does each value become?\n\n@{yaml}",
    "```\n@{log_line}\n```\n\n@{request}",
    "Three lines from a log:\n\n@{log_line}\n@{log_line#2}\n@{log_line#3}\n\nWhat happened, in "
    "which order? @{request}",
    "@{url}\n\n@{request}",
    "Take this address apart and decode what is encoded in it: @{url}. Then build one for @{host}.",
    "Sort these and say why that order: @{url}, @{url#2}, @{url#3}",
    "What does $@{latex}$ say? Write it in words, then as plain Unicode text. @{request}",
    "Fix the LaTeX if needed and typeset it as an aligned environment with two lines: @{latex} and "
    "@{latex#2}",
    "A hex dump:\n\n@{hexdump}\n\n@{request}",
    "Decode as big-endian and as little-endian 32-bit words:\n\n@{hexdump}",
    "Explain the regular expression `@{regex}` and give @{n:3:6} strings that match and @{n:3:6} "
    "that almost do.",
    "Rename `@{camel}` to snake_case, kebab-case and SCREAMING_CASE, and do the same for "
    "`@{camel#2}`, `@{snake}` and `@{snake#2}`.",
    "Write a call graph for functions named `@{camel}`, `@{camel#2}`, `@{snake}`, `@{snake#2}` and "
    "`@{snake#3}`, guessing from the names. @{request}",
    "A checksum list:\n\n@{hex:64}  @{snake}.tar.zst\n@{hex:64}  @{snake#2}.sig\n@{hex:40}  "
    "@{noun}.pack\n\n@{request}",
    "Write a JSON Schema that accepts this and rejects it when a field is missing:\n\n@{json}",
    "diff --git a/src/@{noun}.c b/src/@{noun}.c\nindex @{hex:7}..@{hex:7} 100644\n--- "
    "a/src/@{noun}.c\n+++ b/src/@{noun}.c\n@@ -@{n:10:400},3 +@{n:10:400},4 @@ static int "
    "@{snake}(void)\n-    return @{snake#2}(0x@{hex:4});\n+    int rc = @{snake#2}(0x@{hex:4});\n+ "
    "   return rc < 0 ? -E@{n:2:9} : rc;\n\nDescribe the change for a commit message. @{request}",
    "Which of these are the same number: 0x@{hex:4}, 0b@{n:100:111}@{n:100:111}, @{n:1000:65535}, "
    "0o@{n:100:777}, '@{A:noun}'? Show the conversions.",
    "Generate a table of @{n:4:8} fictional devices with columns uuid, mac, firmware (like "
    "@{n:1:9}.@{n:0:20}.@{n:0:99}-rc.@{n:1:9}+g@{hex:7}) and last_seen in RFC 3339.",
    "cmp `@{b64:32}` with `@{b64:32}` and `@{b64:30}==`: which are valid base64, and what do their "
    "first four bytes decode to?",
    "A query string: "
    "`@{noun}=@{hex:6}&@{noun#2}%5B%5D=@{n:1:99}&@{noun#2}%5B%5D=@{n:1:99}&@{adjective}=&x=%F0%9F%"
    "94%A7`. Turn it into @{target}.",
    "Unicode: give code points, UTF-8 bytes and UTF-16 units of \"na\u00efve \U0001F9ED @{noun} "
    "\u2260 \u01C6 \uFB01\" and of \"@{A:name} \u0444\u0301\". @{request}",
};

const struct fg_phrase_list fg_words_rare[] = {
    FG_PHRASE_LIST(prompt),  FG_PHRASE_LIST(camel),
    FG_PHRASE_LIST(snake),   FG_PHRASE_LIST(host),
    FG_PHRASE_LIST(url),     FG_PHRASE_LIST(json),
    FG_PHRASE_LIST(yaml),    FG_PHRASE_LIST(latex),
    FG_PHRASE_LIST(hexdump), FG_PHRASE_LIST(log_line),
    FG_PHRASE_LIST(regex),   FG_PHRASE_LIST(request),
    FG_PHRASE_LIST(target),  {0},
};
