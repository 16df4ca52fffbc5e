// corpus/data_common.c: words that several kinds of training prompts use.
#include "corpus/prompts_data.h"

static const char *const name[] = {
    "Aisha",  "Bogdan", "Chiara", "Dmitri", "Elif",    "Farid",   "Greta", "Hiroshi", "Ines",
    "Jamal",  "Keiko",  "Lucía",  "Mateus", "Nadia",   "Olumide", "Priya", "Quentin", "Rosa",
    "Sanjay", "Tomasz", "Ursula", "Viktor", "Wanjiru", "Ximena",  "Yusuf", "Zofia",
};

static const char *const noun[] = {
    "account", "anchor",      "archive", "batch",     "bridge",  "bucket",  "buffer",   "cable",
    "carrier", "channel",     "cluster", "contract",  "counter", "cursor",  "delivery", "device",
    "digest",  "driver",      "editor",  "engine",    "event",   "feature", "filter",   "folder",
    "frame",   "gateway",     "harvest", "header",    "image",   "index",   "invoice",  "journal",
    "kernel",  "label",       "ledger",  "lesson",    "limit",   "market",  "matrix",   "message",
    "meter",   "module",      "notice",  "object",    "order",   "packet",  "parcel",   "patient",
    "payload", "planner",     "portal",  "profile",   "quota",   "record",  "region",   "report",
    "request", "reservation", "route",   "sample",    "schema",  "sensor",  "session",  "shard",
    "signal",  "socket",      "stream",  "student",   "ticket",  "token",   "tracker",  "vector",
    "vehicle", "vendor",      "voucher", "warehouse", "window",  "worker",
};

static const char *const verb[] = {
    "apply",   "archive", "assign", "build",  "cancel", "check",    "close",  "collect",
    "compare", "compute", "copy",   "decode", "delete", "dispatch", "drain",  "emit",
    "encode",  "expand",  "fetch",  "flush",  "format", "freeze",   "group",  "handle",
    "import",  "insert",  "list",   "load",   "lock",   "merge",    "move",   "notify",
    "parse",   "patch",   "pause",  "poll",   "prune",  "publish",  "queue",  "reduce",
    "refresh", "release", "render", "repair", "reset",  "resolve",  "resume", "retry",
    "rotate",  "route",   "sample", "scan",   "seal",   "select",   "sign",   "split",
    "store",   "stream",  "sync",   "trim",   "update", "validate", "verify", "wrap",
};

static const char *const adjective[] = {
    "active",   "atomic",  "balanced", "blocked", "cached",   "cold",   "compact", "daily",
    "dirty",    "draft",   "empty",    "expired", "external", "final",  "fresh",   "global",
    "hidden",   "hot",     "idle",     "inner",   "invalid",  "large",  "latest",  "lazy",
    "local",    "locked",  "lost",     "missing", "nested",   "open",   "partial", "pending",
    "primary",  "private", "public",   "raw",     "recent",   "remote", "retired", "safe",
    "sealed",   "shared",  "signed",   "slow",    "sorted",   "stale",  "strict",  "unique",
    "upstream", "virtual", "visible",  "weak",
};

static const char *const company[] = {
    "a regional bakery chain",
    "a small robotics lab",
    "a bicycle rental start-up",
    "a municipal water utility",
    "a chain of veterinary clinics",
    "an online chess academy",
    "a cooperative of dairy farms",
    "a tram operator",
    "a podcast publisher",
    "a used-book marketplace",
    "a weather data company",
    "a hospital pharmacy",
    "a museum archive",
    "a parcel locker network",
    "a solar panel installer",
    "a language school",
    "a festival ticket office",
    "a coastal ferry line",
    "a genealogy website",
    "a furniture repair workshop",
    "a community radio station",
    "a wholesale flower market",
    "a public library consortium",
    "an avalanche warning service",
};

static const char *const audience[] = {
    "for a colleague who joined last week",
    "for someone who only knows Python",
    "for a student in the second semester",
    "for an experienced engineer in a hurry",
    "for a reader who distrusts jargon",
    "for a code review discussion",
    "for an on-call handbook",
    "for a ten-minute lightning talk",
    "for a curious teenager",
    "for a team that will maintain it for years",
    "for an interviewer who keeps asking why",
    "for a non-technical manager",
};

static const char *const length[] = {
    "Keep it under 200 words.",      "Be thorough.",
    "Two paragraphs are enough.",    "Use at most ten sentences.",
    "Take the space that you need.", "Answer in bullet points.",
    "Start with a one-line answer.", "Show your reasoning.",
    "No introduction, please.",      "End with a short summary.",
    "Prefer examples to theory.",    "Number your steps.",
};

// What people add to an agent's task.
static const char *const note[] = {
    "I am on a train, so keep your messages short.",
    "There is no hurry; be thorough.",
    "Tell me before you do anything that cannot be undone.",
    "I already tried the obvious thing.",
    "@{name} is watching over my shoulder.",
    "Write down what you assume.",
    "If something is unclear, take the cheaper reading and say so.",
    "You have until @{n:2:6} o'clock.",
    "The last assistant gave up on this.",
    "Please answer in the language of this message.",
    "Use as few tool calls as you can.",
    "Double-check the numbers.",
    "I will forward your answer to @{name#2} as it is.",
    "Stop after the first problem and report.",
    "Afterwards give me a list of what is left to do.",
    "This is the third time this month.",
    "Skip anything that needs a password.",
    "Explain it so that @{name#3} can repeat it without you.",
};

const struct fg_phrase_list fg_words_common[] = {
    FG_PHRASE_LIST(name),      FG_PHRASE_LIST(noun),    FG_PHRASE_LIST(verb),
    FG_PHRASE_LIST(adjective), FG_PHRASE_LIST(company), FG_PHRASE_LIST(audience),
    FG_PHRASE_LIST(length),    FG_PHRASE_LIST(note),    {0},
};
