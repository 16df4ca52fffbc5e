// corpus/data_eval_more.c: evaluation prompts in other languages, and for agents with tools of
// their own.
#include "corpus/prompts_data.h"

#define LISTS(x)                                                                                   \
    static const struct fg_phrase_list x##_lists[] = {                                             \
        {"prompt", x##_prompt, sizeof x##_prompt / sizeof x##_prompt[0]},                          \
        {"theme", x##_theme, sizeof x##_theme / sizeof x##_theme[0]},                              \
        {"wish", x##_wish, sizeof x##_wish / sizeof x##_wish[0]},                                  \
        {0}}

static const char *const de_prompt[] = {
    "Was weiß man über @{theme}? @{wish}",
    "@{theme} oder @{theme#2}: was ist wichtiger? @{wish}",
    "Kurzgeschichte, Thema @{theme}. @{wish}",
    "Schreib mir @{n:3:9} Fragen zu @{theme}. @{wish}",
};
static const char *const de_theme[] = {
    "Bernsteinfunde",     "Kraniche",      "Hafenkräne",      "Glockenguss",
    "Moorwanderungen",    "Zahlensysteme", "Hochwasserpegel", "Puppentheater",
    "Schimmel im Keller", "Handschriften", "Tarifverträge",   "Sternschnuppen",
};
static const char *const de_wish[] = {
    "Bleib sachlich.",    "Drei Absätze.",  "Erst die Antwort.",
    "Mit Zahlen, bitte.", "Gern mit Witz.", "Für Laien.",
};
LISTS(de);

static const char *const fr_prompt[] = {
    "Que sait-on de @{theme} ? @{wish}",
    "@{theme} ou @{theme#2} ? @{wish}",
    "Un poème sur @{theme}. @{wish}",
    "@{n:3:9} idées de recherche autour de @{theme}. @{wish}",
};
static const char *const fr_theme[] = {
    "l'ambre",      "la dentelle",      "les phares bretons",
    "l'écluse",     "la truffe",        "les nombres premiers",
    "la brume",     "les marionnettes", "la rouille",
    "les archives", "l'apnée",          "les comètes",
};
static const char *const fr_wish[] = {
    "Reste factuel.",     "Trois paragraphes.", "Commence par la réponse.",
    "Avec des chiffres.", "Un peu d'esprit.",   "Pour débutants.",
};
LISTS(fr);

static const char *const es_prompt[] = {
    "¿Qué sabemos de @{theme}? @{wish}",
    "¿@{theme} o @{theme#2}? @{wish}",
    "Una fábula con @{theme}. @{wish}",
    "Propón @{n:3:9} experimentos con @{theme}. @{wish}",
};
static const char *const es_theme[] = {
    "el ámbar",   "las cometas",        "los faros", "la esgrima",
    "el azafrán", "los números primos", "la niebla", "los títeres",
    "el óxido",   "los mapas antiguos", "el eco",    "las salinas",
};
static const char *const es_wish[] = {
    "Sé breve.",   "Tres párrafos.", "Primero la respuesta.",
    "Con cifras.", "Con gracia.",    "Para principiantes.",
};
LISTS(es);

static const char *const zh_prompt[] = {
    "谈谈@{theme}。@{wish}",
    "@{theme}和@{theme#2}哪个更重要？@{wish}",
    "写一个关于@{theme}的小故事。@{wish}",
    "提出@{n:3:9}个有关@{theme}的问题。@{wish}",
};
static const char *const zh_theme[] = {
    "琥珀",     "皮影戏", "灯塔", "铸钟",     "湿地", "质数",
    "潮汐电站", "篆刻",   "铁锈", "古籍修复", "回声", "流星雨",
};
static const char *const zh_wish[] = {
    "要客观。", "写三段。", "先给结论。", "请附数字。", "可以风趣些。", "面向外行。",
};
LISTS(zh);

static const char *const ja_prompt[] = {
    "@{theme}について教えて。@{wish}",
    "@{theme}と@{theme#2}、どちらが大切？@{wish}",
    "@{theme}が出てくる短編を書いて。@{wish}",
    "@{theme}の研究テーマを@{n:3:9}個。@{wish}",
};
static const char *const ja_theme[] = {
    "琥珀",   "文楽",     "灯台", "鐘の鋳造", "湿原",     "素数",
    "防潮堤", "活版印刷", "さび", "古文書",   "やまびこ", "流星群",
};
static const char *const ja_wish[] = {
    "客観的に。", "三段落で。", "結論から。", "数字を添えて。", "軽い調子で。", "初心者向けに。",
};
LISTS(ja);

static const char *const ru_prompt[] = {
    "Что известно про @{theme}? @{wish}",
    "@{theme} или @{theme#2}? @{wish}",
    "Сказка, где есть @{theme}. @{wish}",
    "Ещё @{n:3:9} вопросов: @{theme}. @{wish}",
};
static const char *const ru_theme[] = {
    "янтарь",  "журавли",     "маяк",     "литьё колоколов",    "болота", "простые числа",
    "паводок", "театр теней", "ржавчина", "берестяные грамоты", "эхо",    "метеоры",
};
static const char *const ru_wish[] = {
    "Только факты.", "Три абзаца.", "Сначала вывод.", "С цифрами.", "С юмором.", "Для новичков.",
};
LISTS(ru);

static const char *const ar_prompt[] = {
    "ماذا نعرف عن @{theme}؟ @{wish}",
    "@{theme} أم @{theme#2}؟ @{wish}",
    "قصة فيها @{theme}. @{wish}",
    "اقترح @{n:3:9} تجارب حول @{theme}. @{wish}",
};
static const char *const ar_theme[] = {
    "الكهرمان",  "المنارة", "الصدى",  "خيال الظل",   "الأعداد الأولية", "الصدأ",
    "المخطوطات", "الشهب",   "السدود", "الخط العربي", "الملاحات",        "الضباب",
};
static const char *const ar_wish[] = {
    "بموضوعية.", "في ثلاث فقرات.", "ابدأ بالنتيجة.", "مع أرقام.", "بروح مرحة.", "للمبتدئين.",
};
LISTS(ar);

static const char *const hi_prompt[] = {
    "@{theme} के बारे में क्या पता है? @{wish}",
    "@{theme} या @{theme#2}? @{wish}",
    "एक कहानी जिसमें @{theme} हो। @{wish}",
    "@{theme} पर @{n:3:9} प्रयोग सुझाएँ। @{wish}",
};
static const char *const hi_theme[] = {
    "अंबर",       "प्रकाश-स्तंभ", "प्रतिध्वनि", "कठपुतली", "अभाज्य संख्याएँ", "ज़ंग",
    "पांडुलिपियाँ", "उल्का",      "बाँध",      "धुंध",     "नमक के खेत",    "सारस",
};
static const char *const hi_wish[] = {
    "तथ्य ही दें।", "तीन अनुच्छेद।", "पहले निष्कर्ष।", "आँकड़ों सहित।", "हल्के अंदाज़ में।", "नौसिखियों के लिए।",
};
LISTS(hi);

const struct fg_language fg_eval_languages[] = {
    {"de", de_lists}, {"zh", zh_lists}, {"es", es_lists},
    {"ja", ja_lists}, {"fr", fr_lists}, {"ru", ru_lists},
    {"ar", ar_lists}, {"hi", hi_lists}, {0},
};

// ---- agents

#define AGENT(set)                                                                                 \
    static const struct fg_phrase_list set##_lists[] = {                                           \
        {"system", set##_system, sizeof set##_system / sizeof set##_system[0]},                    \
        {"task", set##_task, sizeof set##_task / sizeof set##_task[0]},                            \
        {"call", set##_call, sizeof set##_call / sizeof set##_call[0]},                            \
        {"matter", set##_matter, sizeof set##_matter / sizeof set##_matter[0]},                    \
        {0}}

static const char *const repo_tools[] = {
    "view|Open a source file at a revision.|file:string!:Which file|rev:string:Commit or "
    "tag|lines:string:A range, as 10-40",
    "edit|Swap a passage for another.|file:string!:Which file|old:string!:Passage as it "
    "stands|new:string!:Passage as it shall be",
    "sh|Execute something in the checkout.|cmd:string!:What to execute|cwd:string:Where",
    "grep|Look for text.|regex:string!:What to look for|where:string:Subtree",
    NULL,
};
static const char *const repo_system[] = {
    "Work inside the checkout. Small steps; verify each. Report at the end.",
    "You fix software. Reproduce a fault before touching it. Never force-push.",
};
static const char *const repo_matter[] = {
    "the importer drops umlauts",   "undo forgets the caret",
    "the cache key ignores locale", "reports print twice",
    "the linter loops on symlinks", "sorting is unstable for ties",
    "the daemon leaks descriptors", "dark mode hides errors",
    "`sync` exits 0 on failure",    "the wizard skips step @{n:2:6}",
    "fonts flicker on resize",      "retry storms after outages",
};
static const char *const repo_task[] = {
    "Bug @{n:100:9999}: @{matter}. Fix, test, done.",
    "@{A:matter}; also @{matter#2}. Same cause?",
    "Bisect when this began: @{matter}.",
    "Explain to @{who} why @{matter}, with evidence from the code.",
    "Before the release, make sure that @{matter} cannot return.",
    "Draft a patch series of @{n:2:5} commits; goal: @{matter}, gone.",
};
static const char *const repo_call[] = {
    "grep|{\"regex\": \"locale\", \"where\": \"lib\"}|lib/ui/field.ts:@{n:20:300}:  "
    "this.caret = keep ? this.caret : 0;\nlib/net/cache.ts:@{n:20:300}:  const key = hash(url);",
    "sh|{\"cmd\": \"make check\"}|ok @{n:40:300}, failed @{n:1:4}: field_spec, cache_spec",
};
AGENT(repo);

static const char *const lab_tools[] = {
    "measure|Take a reading.|sensor:string!:Sensor name|repeat:integer:Readings to average",
    "set_pump|Run a pump.|pump:A,B,C:Which|ml_per_min:number!:Flow",
    "logbook|Append to the log book.|entry:string!:What happened",
    "wait|Let time pass.|seconds:integer!:How long",
    NULL,
};
static const char *const lab_system[] = {
    "You run a wet laboratory. Safety limits: 60 degrees, 3 bar. Log everything.",
    "Automate the bench. Ask when a reading looks implausible.",
};
static const char *const lab_matter[] = {
    "titrate sample @{n:2:60}", "hold pH at @{n:5:8}.@{n:0:9}",
    "flush line @{n:1:9}",      "find the leak near valve @{n:1:8}",
    "calibrate the photometer", "cool the bath to @{n:3:18} degrees",
    "repeat run @{n:11:99}",    "compare both thermometers",
};
static const char *const lab_task[] = {
    "@{A:matter}, then @{matter#2}.",
    "Could you @{matter} before noon?",
    "@{who} reports drift. @{matter} and judge it.",
    "Protocol: @{matter}; wait @{n:2:20} minutes; @{matter#2}; summarize.",
};
static const char *const lab_call[] = {
    "measure|{\"sensor\": \"ph1\", \"repeat\": 5}|mean @{n:5:8}.@{digits:2}, sd 0.0@{n:1:9}",
    "set_pump|{\"pump\": \"B\", \"ml_per_min\": @{n:1:9}.5}|running since @{n:1:9} s",
};
AGENT(lab);

static const char *const city_tools[] = {
    "lookup_permit|Find a building permit.|parcel:string!:Parcel number|since:string:Year",
    "plan_route|Route for a vehicle.|stops:array!:Addresses|avoid:string:What to avoid",
    "file_form|Submit a form.|form:string!:Its code|fields:object!:Entries",
    NULL,
};
static const char *const city_system[] = {
    "You are the desk of a town hall. Law first, courtesy always.",
    "Help residents. Forms are final once filed: confirm first.",
};
static const char *const city_matter[] = {
    "a carport on parcel @{n:11:980}",
    "the stall at gate @{n:2:19}",
    "a street party for @{n:30:400}",
    "a felled linden",
    "the noise at number @{n:2:90}",
    "a moving van on a market day",
    "a second dustbin",
    "scaffolding over the pavement",
};
static const char *const city_task[] = {
    "I need a permit: @{matter}.",
    "@{who} objects to @{matter}. What next?",
    "Was @{matter} ever approved?",
    "Combine @{matter} and @{matter#2} in one visit, please.",
    "Route the inspector past @{matter}, @{matter#2} and @{matter#3}.",
};
static const char *const city_call[] = {
    "lookup_permit|{\"parcel\": \"@{n:11:980}\", \"since\": \"2019\"}|granted 20@{n:19:25}, "
    "expires 20@{n:26:31}; neighbour's consent missing",
    "plan_route|{\"stops\": [\"Linden Lane @{n:1:90}\", \"Quay @{n:1:30}\"]}|@{n:3:19} km, "
    "@{n:9:48} min, market closed to vans until 14:00",
};
AGENT(city);

const struct fg_toolset fg_eval_toolsets[] = {
    {"repo", repo_tools, repo_lists},
    {"lab", lab_tools, lab_lists},
    {"repo", repo_tools, repo_lists},
    {"city", city_tools, city_lists},
    {0},
};
