// corpus/data_languages.c: training prompts in 22 languages and ten scripts. Topics stand behind
// a colon or in quotation marks, so that no grammar has to agree with them.
#include "corpus/prompts_data.h"

#define LANGUAGE(code)                                                                             \
    static const struct fg_phrase_list code##_lists[] = {                                          \
        {"prompt", code##_prompt, sizeof code##_prompt / sizeof code##_prompt[0]},                 \
        {"topic", code##_topic, sizeof code##_topic / sizeof code##_topic[0]},                     \
        {"who", code##_who, sizeof code##_who / sizeof code##_who[0]},                             \
        {"how", code##_how, sizeof code##_how / sizeof code##_how[0]},                             \
        {0}}

static const char *const de_prompt[] = {
    "Erkläre @{who} folgendes Thema: @{topic}. @{how}",
    "Ich muss @{who} einen Vortrag über \"@{topic}\" halten. Schlage eine Gliederung mit @{n:3:7} "
    "Punkten vor. @{how}",
    "Schreibe einen Dialog von @{n:6:14} Zeilen zum Stichwort: @{topic}. @{how}",
    "Welche Irrtümer sind bei diesem Thema verbreitet: @{topic}? @{how}",
    "Verfasse @{who} eine höfliche E-Mail; es geht um: @{topic}. @{how}",
    "Was haben \"@{topic}\" und \"@{topic#2}\" gemeinsam, und worin unterscheiden sie sich? @{how}",
    "Übersetze die Überschrift \"@{topic}\" ins Englische und erkläre, warum du so übersetzt. "
    "@{how}",
    "Entwirf @{n:4:9} Prüfungsfragen samt Lösungen zu: @{topic}. @{how}",
};
static const char *const de_topic[] = {
    "warum Brot beim Backen aufgeht",
    "die Uhr der Sumerer",
    "Fahrradwege in der Altstadt",
    "das Rechnen mit Brüchen",
    "Nachtzüge in Europa",
    "die Pflege alter Obstbäume",
    "ein undichter Wasserhahn",
    "der Wasserkreislauf",
    "Sprichwörter vom Lande",
    "Sicherungskopien für zu Hause",
    "die Wahl eines Musikinstruments",
    "Mieterhöhung nach Sanierung",
    "Zugvögel im Herbst",
    "der Unterschied von Masse und Gewicht",
    "Schach für Anfänger",
    "Nebel am Bodensee",
};
static const char *const de_who[] = {
    "einer Schulklasse",          "meiner Nachbarin",    "einem Fachpublikum",
    "einem Kind von acht Jahren", "dem Vereinsvorstand", "einer skeptischen Leserin",
};
static const char *const de_how[] = {
    "Bitte ohne Fremdwörter.",
    "Höchstens hundertfünfzig Wörter.",
    "Mit einem Beispiel aus dem Alltag.",
    "Antworte in Stichpunkten.",
    "Der Ton darf humorvoll sein.",
    "Nenne am Ende, was unsicher ist.",
};
LANGUAGE(de);

static const char *const fr_prompt[] = {
    "Explique @{who} le sujet suivant : @{topic}. @{how}",
    ("Je prépare un exposé sur « @{topic} » destiné @{who}. Propose un plan en @{n:3:7} parties. "
     "@{how}"),
    "Écris une scène de théâtre de @{n:6:14} répliques autour de ce thème : @{topic}. @{how}",
    "Quelles idées reçues circulent à propos de ceci : @{topic} ? @{how}",
    "Rédige une lettre adressée @{who} ; objet : @{topic}. @{how}",
    "Compare « @{topic} » et « @{topic#2} » : points communs, différences, surprises. @{how}",
    "Donne @{n:4:9} questions d'examen avec corrigé sur : @{topic}. @{how}",
    "Résume en une phrase, puis en un paragraphe : @{topic}. @{how}",
};
static const char *const fr_topic[] = {
    "la fermentation du fromage",
    "les marées de la baie du Mont-Saint-Michel",
    "le théorème de Pythagore",
    "le compostage en appartement",
    "les trains de nuit",
    "la grammaire du subjonctif",
    "une fuite sous l'évier",
    "l'histoire du métro",
    "la mémoire des abeilles",
    "les sauvegardes informatiques",
    "le choix d'un vélo d'occasion",
    "la loi des grands nombres",
    "les dialectes du Sud",
    "une réunion qui s'éternise",
    "la photographie argentique",
    "le prix du pain",
};
static const char *const fr_who[] = {
    "à un enfant de dix ans", "à une collègue pressée",      "à des élèves de terminale",
    "à mon propriétaire",     "à un public de spécialistes", "à une association de quartier",
};
static const char *const fr_how[] = {
    "Évite le jargon.",           "Pas plus de cent cinquante mots.",
    "Ajoute un exemple concret.", "Réponds par une liste.",
    "Le ton peut être ironique.", "Termine par une question ouverte.",
};
LANGUAGE(fr);

static const char *const es_prompt[] = {
    "Explícale @{who} este asunto: @{topic}. @{how}",
    "Tengo que hablar @{n:5:20} minutos sobre «@{topic}». ¿Qué guion me propones? @{how}",
    "Escribe un cuento muy breve que gire en torno a esto: @{topic}. @{how}",
    "¿Qué errores comete la gente cuando piensa en lo siguiente: @{topic}? @{how}",
    "Redacta un mensaje cortés @{who}; motivo: @{topic}. @{how}",
    "Compara «@{topic}» con «@{topic#2}» en una tabla de @{n:3:6} filas. @{how}",
    "Prepara @{n:4:9} preguntas tipo test con sus respuestas acerca de: @{topic}. @{how}",
    "Dame tres argumentos a favor y tres en contra sobre: @{topic}. @{how}",
};
static const char *const es_topic[] = {
    "la siesta en las oficinas",      "por qué el cielo es azul",
    "los números negativos",          "el riego de un huerto pequeño",
    "un ascensor averiado",           "las lenguas de los Andes",
    "la conservación del aceite",     "las copias de seguridad",
    "el origen del ajedrez",          "los terremotos y sus escalas",
    "el transporte en barrios altos", "la interpretación de una gráfica",
    "los refranes de mi abuela",      "la reparación de una bicicleta",
    "el cultivo del cacao",           "una carta que nunca llegó",
};
static const char *const es_who[] = {
    "a una niña de nueve años",      "al administrador de la finca", "a un grupo de voluntarios",
    "a quien no sabe nada del tema", "a mi profesora de física",     "a un cliente enfadado",
};
static const char *const es_how[] = {
    "Sin tecnicismos.",
    "En menos de ciento veinte palabras.",
    "Incluye un ejemplo cotidiano.",
    "Responde con viñetas.",
    "Puedes usar humor.",
    "Indica qué no se sabe con certeza.",
};
LANGUAGE(es);

static const char *const pt_prompt[] = {
    "Explique @{who} o seguinte tema: @{topic}. @{how}",
    "Preciso escrever @{n:2:6} parágrafos sobre \"@{topic}\". Por onde começo? @{how}",
    "Invente uma conversa de @{n:6:12} falas sobre isto: @{topic}. @{how}",
    "Quais são os enganos mais comuns a respeito disto: @{topic}? @{how}",
    "Escreva um aviso @{who} com este assunto: @{topic}. @{how}",
    "Em que \"@{topic}\" se parece com \"@{topic#2}\"? @{how}",
    "Faça um questionário de @{n:4:9} perguntas com gabarito sobre: @{topic}. @{how}",
};
static const char *const pt_topic[] = {
    "a salga do bacalhau",
    "as fases da lua",
    "a regra de três",
    "a horta na varanda",
    "o bonde antigo da cidade",
    "a coleta de lixo no feriado",
    "os ventos alísios",
    "a senha esquecida",
    "as palavras que vieram do tupi",
    "um vazamento no telhado",
    "o jogo de damas",
    "a leitura de mapas",
    "o mel das abelhas sem ferrão",
    "o preço do café",
};
static const char *const pt_who[] = {
    "a uma criança curiosa",  "aos moradores do prédio", "a um técnico experiente",
    "a turistas de passagem", "à diretora da escola",
};
static const char *const pt_how[] = {
    "Use palavras simples.", "No máximo cem palavras.", "Dê um exemplo do dia a dia.",
    "Responda em tópicos.",  "Pode ter graça.",
};
LANGUAGE(pt);

static const char *const it_prompt[] = {
    "Spiega @{who} questo argomento: @{topic}. @{how}",
    "Devo preparare una lezione su «@{topic}». Suggerisci @{n:3:7} passaggi. @{how}",
    "Scrivi un breve racconto che parli di: @{topic}. @{how}",
    "Quali luoghi comuni esistono su questo: @{topic}? @{how}",
    "Scrivi una lettera @{who}; oggetto: @{topic}. @{how}",
    "Metti a confronto «@{topic}» e «@{topic#2}». @{how}",
    "Prepara @{n:4:9} domande con risposta riguardo a: @{topic}. @{how}",
};
static const char *const it_topic[] = {
    "la lievitazione lenta",      "gli anelli degli alberi",    "le equazioni di primo grado",
    "il restauro di una sedia",   "la nebbia in pianura",       "i treni regionali",
    "una bolletta troppo alta",   "la prospettiva nel disegno", "le maree a Venezia",
    "il backup delle fotografie", "i dialetti e la scuola",     "il gioco della morra",
    "la potatura degli ulivi",    "un vicino rumoroso",
};
static const char *const it_who[] = {
    "a un bambino",           "all'amministratore", "a un gruppo di studenti",
    "a una persona scettica", "al mio capo",
};
static const char *const it_how[] = {
    "Niente termini tecnici.", "Al massimo cento parole.", "Porta un esempio pratico.",
    "Rispondi con un elenco.", "Il tono sia leggero.",
};
LANGUAGE(it);

static const char *const nl_prompt[] = {
    "Leg @{who} het volgende uit: @{topic}. @{how}",
    "Schrijf een stukje van @{n:3:6} alinea's over \"@{topic}\". @{how}",
    "Bedenk een gesprek tussen twee buren over: @{topic}. @{how}",
    "Welke misverstanden bestaan er over dit onderwerp: @{topic}? @{how}",
    "Wat is het verband tussen \"@{topic}\" en \"@{topic#2}\"? @{how}",
    "Maak @{n:4:9} toetsvragen met antwoorden over: @{topic}. @{how}",
};
static const char *const nl_topic[] = {
    "hoe een gemaal water verzet",
    "het bakken van roggebrood",
    "fietsen tegen de wind",
    "procenten en promilles",
    "een lekkende goot",
    "de veerpont op zondag",
    "oude schaatsroutes",
    "wachtwoorden onthouden",
    "de bloei van bollen",
    "het verschil tussen weer en klimaat",
    "een volle agenda",
    "vleermuizen op zolder",
};
static const char *const nl_who[] = {
    "aan een brugklasser",
    "aan de huisbaas",
    "aan een vakgenoot",
    "aan iemand die haast heeft",
};
static const char *const nl_how[] = {
    "Zonder moeilijke woorden.",
    "In hooguit honderd woorden.",
    "Met een voorbeeld van thuis.",
    "Graag puntsgewijs.",
};
LANGUAGE(nl);

static const char *const pl_prompt[] = {
    "Wyjaśnij @{who} następujące zagadnienie: @{topic}. @{how}",
    "Ułóż plan referatu w @{n:3:7} punktach na temat „@{topic}”. @{how}",
    "Napisz krótkie opowiadanie, którego tematem jest: @{topic}. @{how}",
    "Jakie błędne przekonania krążą o tym: @{topic}? @{how}",
    "Porównaj „@{topic}” oraz „@{topic#2}”. @{how}",
    "Przygotuj @{n:4:9} pytań z odpowiedziami: @{topic}. @{how}",
};
static const char *const pl_topic[] = {
    "kiszenie ogórków",
    "ruch planet",
    "ułamki zwykłe i dziesiętne",
    "nocne autobusy",
    "cieknący kran",
    "stare przysłowia",
    "kopie zapasowe",
    "gniazda bocianów",
    "czytanie mapy turystycznej",
    "gra w warcaby",
    "rachunek za prąd",
    "sad za domem",
    "różnica między pogodą a klimatem",
};
static const char *const pl_who[] = {
    "uczniowi szkoły podstawowej",
    "sąsiadowi",
    "zespołowi inżynierów",
    "osobie, która się spieszy",
};
static const char *const pl_how[] = {
    "Bez trudnych słów.",
    "Najwyżej sto słów.",
    "Podaj przykład z życia.",
    "Odpowiedz w punktach.",
};
LANGUAGE(pl);

static const char *const sv_prompt[] = {
    "Förklara det här @{who}: @{topic}. @{how}",
    "Skriv @{n:2:5} stycken om \"@{topic}\". @{how}",
    "Hitta på ett samtal mellan två grannar om: @{topic}. @{how}",
    "Vilka missförstånd är vanliga när det gäller: @{topic}? @{how}",
    "Jämför \"@{topic}\" med \"@{topic#2}\". @{how}",
    "Gör ett prov med @{n:4:9} frågor och facit om: @{topic}. @{how}",
};
static const char *const sv_topic[] = {
    "norrsken och solvind",  "surdeg i kallt kök",      "bråkräkning",
    "nattbussar på landet",  "en frusen vattenledning", "gamla ordspråk",
    "säkerhetskopior hemma", "svampplockning i regn",   "skillnaden mellan fart och acceleration",
    "valet av cykel",        "ett bullrigt trapphus",   "isvägar på vintern",
};
static const char *const sv_who[] = {
    "för ett barn på tio år",
    "för styrelsen",
    "för en expert",
    "för den som har bråttom",
};
static const char *const sv_how[] = {
    "Undvik facktermer.",
    "Högst hundra ord.",
    "Ge ett exempel ur vardagen.",
    "Svara i punktform.",
};
LANGUAGE(sv);

static const char *const tr_prompt[] = {
    "Şu konuyu @{who} anlat: @{topic}. @{how}",
    "\"@{topic}\" hakkında @{n:3:6} bölümlük bir sunum planı hazırla. @{how}",
    "Şu konu etrafında iki komşunun konuşmasını yaz: @{topic}. @{how}",
    "İnsanlar şu konuda hangi yanlışlara düşer: @{topic}? @{how}",
    "\"@{topic}\" ile \"@{topic#2}\" arasındaki benzerlik ve farkları yaz. @{how}",
    "Cevap anahtarıyla birlikte @{n:4:9} soru hazırla: @{topic}. @{how}",
};
static const char *const tr_topic[] = {
    "yoğurt mayalamak", "gökkuşağının oluşumu", "oran ve orantı",           "akan musluk",
    "eski atasözleri",  "gece treni",           "bilgisayarda yedek almak", "zeytin hasadı",
    "harita okumak",    "tavla oynamak",        "elektrik faturası",        "leyleklerin göçü",
};
static const char *const tr_who[] = {
    "on yaşındaki bir çocuğa",
    "apartman yöneticisine",
    "bir uzmana",
    "acelesi olan birine",
};
static const char *const tr_how[] = {
    "Zor kelime kullanma.",
    "En fazla yüz kelime olsun.",
    "Günlük hayattan bir örnek ver.",
    "Maddeler hâlinde yanıtla.",
};
LANGUAGE(tr);

static const char *const vi_prompt[] = {
    "Hãy giải thích @{who} về: @{topic}. @{how}",
    "Lập dàn ý gồm @{n:3:7} phần cho bài nói về \"@{topic}\". @{how}",
    "Viết một đoạn hội thoại ngắn giữa hai người hàng xóm về: @{topic}. @{how}",
    "Người ta thường hiểu sai điều gì về: @{topic}? @{how}",
    "So sánh \"@{topic}\" và \"@{topic#2}\". @{how}",
    "Soạn @{n:4:9} câu hỏi kèm đáp án về: @{topic}. @{how}",
};
static const char *const vi_topic[] = {
    "cách ủ nước mắm",
    "vì sao có thủy triều",
    "phân số",
    "mái nhà bị dột",
    "tục ngữ về thời tiết",
    "tàu đêm",
    "sao lưu ảnh trong điện thoại",
    "mùa gặt ở quê",
    "cách đọc bản đồ",
    "cờ tướng cho người mới",
    "hóa đơn tiền điện",
    "chim di cư",
};
static const char *const vi_who[] = {
    "cho một em bé",
    "cho chủ nhà",
    "cho người trong nghề",
    "cho người đang vội",
};
static const char *const vi_how[] = {
    "Tránh từ chuyên môn.",
    "Không quá một trăm chữ.",
    "Cho một ví dụ gần gũi.",
    "Trả lời bằng gạch đầu dòng.",
};
LANGUAGE(vi);

static const char *const id_prompt[] = {
    "Jelaskan @{who} tentang hal ini: @{topic}. @{how}",
    "Susun kerangka pidato @{n:3:7} bagian mengenai \"@{topic}\". @{how}",
    "Tulis percakapan pendek dua tetangga tentang: @{topic}. @{how}",
    "Apa saja salah paham yang umum mengenai: @{topic}? @{how}",
    "Bandingkan \"@{topic}\" dengan \"@{topic#2}\". @{how}",
    "Buat @{n:4:9} soal beserta kuncinya tentang: @{topic}. @{how}",
};
static const char *const id_topic[] = {
    "cara membuat tempe", "gunung berapi",      "pecahan dan persen",     "atap yang bocor",
    "peribahasa lama",    "kereta malam",       "cadangan data di rumah", "panen padi",
    "membaca peta",       "permainan congklak", "tagihan listrik",        "burung migran",
};
static const char *const id_who[] = {
    "kepada anak kecil",
    "kepada pemilik rumah",
    "kepada ahli",
    "kepada orang yang terburu-buru",
};
static const char *const id_how[] = {
    "Pakai kata yang sederhana.",
    "Paling banyak seratus kata.",
    "Beri contoh sehari-hari.",
    "Jawab dengan butir-butir.",
};
LANGUAGE(id);

static const char *const cs_prompt[] = {
    "Vysvětli @{who} toto téma: @{topic}. @{how}",
    "Navrhni osnovu přednášky o @{n:3:7} bodech na téma „@{topic}“. @{how}",
    "Napiš krátkou povídku, ve které jde o toto: @{topic}. @{how}",
    "Jaké omyly se šíří o tomto: @{topic}? @{how}",
    "Porovnej „@{topic}“ a „@{topic#2}“. @{how}",
    "Připrav @{n:4:9} otázek s odpověďmi: @{topic}. @{how}",
};
static const char *const cs_topic[] = {
    "kvašení zelí",           "zatmění Slunce",  "počítání se zlomky",
    "kapající kohoutek",      "lidová přísloví", "noční vlaky",
    "zálohování dat",         "včelí úl",        "čtení mapy",
    "mariáš pro začátečníky", "účet za plyn",    "mlha v údolí",
};
static const char *const cs_who[] = {
    "žákovi páté třídy",
    "domovníkovi",
    "odborníkovi",
    "někomu, kdo spěchá",
};
static const char *const cs_how[] = {
    "Bez cizích slov.",
    "Nanejvýš sto slov.",
    "Uveď příklad ze života.",
    "Odpověz v bodech.",
};
LANGUAGE(cs);

static const char *const ru_prompt[] = {
    "Объясни @{who}, о чём речь: @{topic}. @{how}",
    "Составь план доклада из @{n:3:7} пунктов на тему «@{topic}». @{how}",
    "Напиши короткий рассказ, в котором главное — @{topic}. @{how}",
    "Какие заблуждения чаще всего встречаются, когда обсуждают: @{topic}? @{how}",
    "Напиши письмо @{who}; повод: @{topic}. @{how}",
    "Сравни «@{topic}» и «@{topic#2}»: что общего, в чём разница? @{how}",
    "Придумай @{n:4:9} вопросов с ответами по теме: @{topic}. @{how}",
};
static const char *const ru_topic[] = {
    "закваска для хлеба", "северное сияние",     "сложение дробей",
    "протекающая крыша",  "старинные пословицы", "ночной поезд",
    "резервные копии",    "перелётные птицы",    "чтение карты",
    "шахматный эндшпиль", "счёт за отопление",   "разница между массой и весом",
    "огород на балконе",  "шумный сосед",
};
static const char *const ru_who[] = {
    "школьнику", "соседке", "специалисту", "человеку, который спешит", "председателю товарищества",
};
static const char *const ru_how[] = {
    "Без сложных слов.", "Не больше ста слов.", "Приведи пример из жизни.",
    "Ответь списком.",   "Можно с юмором.",
};
LANGUAGE(ru);

static const char *const uk_prompt[] = {
    "Поясни @{who}, про що йдеться: @{topic}. @{how}",
    "Склади план доповіді з @{n:3:7} пунктів на тему «@{topic}». @{how}",
    "Напиши коротку розмову двох сусідів про таке: @{topic}. @{how}",
    "Які хибні уявлення поширені щодо цього: @{topic}? @{how}",
    "Порівняй «@{topic}» і «@{topic#2}». @{how}",
    "Підготуй @{n:4:9} запитань із відповідями: @{topic}. @{how}",
};
static const char *const uk_topic[] = {
    "випікання паляниці",  "чому змінюються пори року", "відсотки",
    "зламаний ліфт",       "народні прикмети",          "нічний потяг",
    "резервне копіювання", "бджолиний вулик",           "читання мапи",
    "гра в шашки",         "рахунок за світло",         "туман над річкою",
};
static const char *const uk_who[] = {
    "учневі",
    "керівниці будинку",
    "фахівцеві",
    "тому, хто поспішає",
};
static const char *const uk_how[] = {
    "Без складних слів.",
    "Щонайбільше сто слів.",
    "Наведи приклад із життя.",
    "Відповідай пунктами.",
};
LANGUAGE(uk);

static const char *const el_prompt[] = {
    "Εξήγησε @{who} το εξής θέμα: @{topic}. @{how}",
    "Πρότεινε σχέδιο ομιλίας με @{n:3:7} μέρη για το θέμα «@{topic}». @{how}",
    "Γράψε έναν σύντομο διάλογο γειτόνων για το εξής: @{topic}. @{how}",
    "Ποιες παρανοήσεις υπάρχουν γύρω από αυτό: @{topic}; @{how}",
    "Σύγκρινε «@{topic}» με «@{topic#2}». @{how}",
    "Ετοίμασε @{n:4:9} ερωτήσεις με απαντήσεις: @{topic}. @{how}",
};
static const char *const el_topic[] = {
    "το μάζεμα της ελιάς",
    "οι φάσεις της σελήνης",
    "τα κλάσματα",
    "μια χαλασμένη βρύση",
    "παλιές παροιμίες",
    "το νυχτερινό πλοίο",
    "αντίγραφα ασφαλείας",
    "η μέλισσα",
    "η ανάγνωση χάρτη",
    "το τάβλι",
    "ο λογαριασμός του ρεύματος",
    "το μελτέμι",
};
static const char *const el_who[] = {
    "σε ένα παιδί",
    "στον διαχειριστή",
    "σε έναν ειδικό",
    "σε κάποιον που βιάζεται",
};
static const char *const el_how[] = {
    "Χωρίς δύσκολες λέξεις.",
    "Το πολύ εκατό λέξεις.",
    "Δώσε ένα καθημερινό παράδειγμα.",
    "Απάντησε με κουκκίδες.",
};
LANGUAGE(el);

static const char *const ar_prompt[] = {
    "اشرح @{who} هذا الموضوع: @{topic}. @{how}",
    "ضع خطة عرض من @{n:3:7} أجزاء حول «@{topic}». @{how}",
    "اكتب حوارًا قصيرًا بين جارين عن: @{topic}. @{how}",
    "ما الأخطاء الشائعة حول: @{topic}؟ @{how}",
    "قارن بين «@{topic}» و«@{topic#2}». @{how}",
    "أعد @{n:4:9} أسئلة مع إجاباتها عن: @{topic}. @{how}",
};
static const char *const ar_topic[] = {
    "تجفيف التمر",   "سبب المد والجزر", "النسبة المئوية",  "صنبور يقطر",
    "أمثال قديمة",   "قطار الليل",      "النسخ الاحتياطي", "هجرة الطيور",
    "قراءة الخريطة", "لعبة الشطرنج",    "فاتورة الكهرباء", "حديقة على السطح",
};
static const char *const ar_who[] = {
    "لطفل صغير",
    "لصاحب البيت",
    "لخبير في المجال",
    "لشخص مستعجل",
};
static const char *const ar_how[] = {
    "بكلمات بسيطة.",
    "في مئة كلمة على الأكثر.",
    "مع مثال من الحياة اليومية.",
    "أجب في نقاط.",
};
LANGUAGE(ar);

static const char *const he_prompt[] = {
    "הסבר @{who} את הנושא הבא: @{topic}. @{how}",
    "הצע מתווה הרצאה בן @{n:3:7} חלקים על \"@{topic}\". @{how}",
    "כתוב שיחה קצרה בין שני שכנים על: @{topic}. @{how}",
    "אילו טעויות נפוצות יש לגבי: @{topic}? @{how}",
    "השווה בין \"@{topic}\" לבין \"@{topic#2}\". @{how}",
    "הכן @{n:4:9} שאלות עם תשובות על: @{topic}. @{how}",
};
static const char *const he_topic[] = {
    "אפיית חלה",   "הסיבה לעונות השנה", "שברים פשוטים", "ברז דולף",  "פתגמים ישנים", "רכבת לילה",
    "גיבוי קבצים", "נדידת החסידות",     "קריאת מפה",    "משחק דמקה", "חשבון המים",   "גינה על הגג",
};
static const char *const he_who[] = {
    "לילד בן עשר",
    "לוועד הבית",
    "למומחה",
    "למי שממהר",
};
static const char *const he_how[] = {
    "במילים פשוטות.",
    "עד מאה מילים.",
    "עם דוגמה מחיי היומיום.",
    "ענה בנקודות.",
};
LANGUAGE(he);

static const char *const hi_prompt[] = {
    "@{who} यह विषय समझाइए: @{topic}। @{how}",
    "\"@{topic}\" पर @{n:3:7} भागों के भाषण की रूपरेखा बनाइए। @{how}",
    "इस विषय पर दो पड़ोसियों की छोटी बातचीत लिखिए: @{topic}। @{how}",
    "लोग इस बारे में क्या ग़लत समझते हैं: @{topic}? @{how}",
    "\"@{topic}\" और \"@{topic#2}\" की तुलना कीजिए। @{how}",
    "उत्तर सहित @{n:4:9} प्रश्न तैयार कीजिए: @{topic}। @{how}",
};
static const char *const hi_topic[] = {
    "आम का अचार",  "मानसून क्यों आता है", "भिन्नों का जोड़",        "टपकता नल",
    "पुरानी कहावतें", "रात की रेलगाड़ी",   "तस्वीरों की प्रति रखना", "मधुमक्खी का छत्ता",
    "नक्शा पढ़ना",   "शतरंज की शुरुआत",    "बिजली का बिल",        "छत पर बाग़",
};
static const char *const hi_who[] = {
    "एक बच्चे को",
    "मकान मालिक को",
    "किसी विशेषज्ञ को",
    "जल्दी में किसी को",
};
static const char *const hi_how[] = {
    "सरल शब्दों में।",
    "सौ शब्दों से कम में।",
    "रोज़मर्रा का एक उदाहरण दीजिए।",
    "बिंदुओं में उत्तर दीजिए।",
};
LANGUAGE(hi);

static const char *const th_prompt[] = {
    "ช่วยอธิบาย@{who}เรื่องนี้: @{topic} @{how}",
    "ร่างโครงสุนทรพจน์ @{n:3:7} ส่วนเรื่อง \"@{topic}\" @{how}",
    "เขียนบทสนทนาสั้น ๆ ของเพื่อนบ้านสองคนเรื่อง: @{topic} @{how}",
    "คนมักเข้าใจผิดอะไรเกี่ยวกับ: @{topic} @{how}",
    "เปรียบเทียบ \"@{topic}\" กับ \"@{topic#2}\" @{how}",
    "ตั้งคำถามพร้อมเฉลย @{n:4:9} ข้อเรื่อง: @{topic} @{how}",
};
static const char *const th_topic[] = {
    "การหมักปลาร้า",  "ทำไมจึงมีน้ำขึ้นน้ำลง", "เศษส่วน",     "หลังคารั่ว",          "สำนวนเก่า", "รถไฟกลางคืน",
    "การสำรองข้อมูล", "นกอพยพ",          "การอ่านแผนที่", "หมากรุกสำหรับมือใหม่", "ค่าไฟฟ้า",   "สวนบนระเบียง",
};
static const char *const th_who[] = {
    "ให้เด็ก",
    "ให้เจ้าของบ้าน",
    "ให้ผู้เชี่ยวชาญ",
    "ให้คนที่รีบ",
};
static const char *const th_how[] = {
    "ใช้คำง่าย ๆ",
    "ไม่เกินหนึ่งร้อยคำ",
    "ยกตัวอย่างใกล้ตัว",
    "ตอบเป็นข้อ ๆ",
};
LANGUAGE(th);

static const char *const zh_prompt[] = {
    "请向@{who}解释这个话题：@{topic}。@{how}",
    "我要做一个关于“@{topic}”的报告，请列出@{n:3:7}个部分的提纲。@{how}",
    "围绕下面的主题写一段两位邻居的对话：@{topic}。@{how}",
    "关于这件事，人们常有哪些误解：@{topic}？@{how}",
    "比较“@{topic}”和“@{topic#2}”的异同。@{how}",
    "出@{n:4:9}道带答案的题目，内容是：@{topic}。@{how}",
    "以“@{topic}”为题写一首短诗，并说明用意。@{how}",
};
static const char *const zh_topic[] = {
    "豆腐的做法", "月食为什么发生", "分数的加法",       "漏水的水龙头",     "乡下的谚语",
    "夜行列车",   "手机照片的备份", "候鸟的路线",       "怎样看地图",       "围棋的第一步",
    "电费账单",   "阳台上的菜园",   "质量与重量的区别", "老城区的自行车道",
};
static const char *const zh_who[] = {
    "小学生", "房东", "行内人士", "赶时间的人", "持怀疑态度的读者",
};
static const char *const zh_how[] = {
    "不要用术语。", "不超过一百五十字。", "举一个生活中的例子。",
    "请分点回答。", "语气可以幽默一些。",
};
LANGUAGE(zh);

static const char *const ja_prompt[] = {
    "@{who}に次のことを説明してください：@{topic}。@{how}",
    "「@{topic}」についての発表を@{n:3:7}部構成で考えてください。@{how}",
    "次の題材で隣人どうしの短い会話を書いてください：@{topic}。@{how}",
    "次のことについてよくある誤解は何ですか：@{topic}。@{how}",
    "「@{topic}」と「@{topic#2}」を比べてください。@{how}",
    "答え付きの問題を@{n:4:9}問作ってください。題材：@{topic}。@{how}",
    "@{who}に送る丁寧なメールを書いてください。用件：@{topic}。@{how}",
};
static const char *const ja_topic[] = {
    "味噌の仕込み",   "潮の満ち引き",       "分数の割り算",     "雨漏りの修理", "昔のことわざ",
    "夜行列車",       "写真のバックアップ", "渡り鳥",           "地図の読み方", "将棋の駒の動き",
    "電気料金の明細", "ベランダ菜園",       "古い時計の手入れ",
};
static const char *const ja_who[] = {
    "小学生", "大家さん", "専門家", "急いでいる人", "町内会の役員",
};
static const char *const ja_how[] = {
    "専門用語は使わないでください。",       "二百字以内でお願いします。",
    "身近な例を一つ入れてください。",       "箇条書きで答えてください。",
    "少しユーモアがあってもかまいません。",
};
LANGUAGE(ja);

static const char *const ko_prompt[] = {
    "@{who} 다음 주제를 설명해 주세요: @{topic}. @{how}",
    "\"@{topic}\"에 대한 발표를 @{n:3:7}부분으로 구성해 주세요. @{how}",
    "다음 소재로 이웃 두 사람의 짧은 대화를 써 주세요: @{topic}. @{how}",
    "다음에 대해 흔히 하는 오해는 무엇인가요: @{topic}? @{how}",
    "\"@{topic}\"와 \"@{topic#2}\"를 비교해 주세요. @{how}",
    "정답이 있는 문제를 @{n:4:9}개 만들어 주세요: @{topic}. @{how}",
};
static const char *const ko_topic[] = {
    "된장 담그기", "일식의 원리", "분수의 나눗셈", "새는 수도꼭지", "옛 속담",   "밤 기차",
    "사진 백업",   "철새의 이동", "지도 읽기",     "장기 두는 법",  "전기 요금", "베란다 텃밭",
};
static const char *const ko_who[] = {
    "초등학생에게",
    "집주인에게",
    "전문가에게",
    "바쁜 사람에게",
};
static const char *const ko_how[] = {
    "쉬운 말로 해 주세요.",
    "백 단어 이내로 부탁합니다.",
    "생활 속 예를 하나 들어 주세요.",
    "항목으로 나누어 답해 주세요.",
};
LANGUAGE(ko);

const struct fg_language fg_languages[] = {
    {"de", de_lists},
    {"zh", zh_lists},
    {"es", es_lists},
    {"ru", ru_lists},
    {"ja", ja_lists},
    {"fr", fr_lists},
    {"ar", ar_lists},
    {"ko", ko_lists},
    {"pt", pt_lists},
    {"hi", hi_lists},
    {"it", it_lists},
    {"el", el_lists},
    {"pl", pl_lists},
    {"th", th_lists},
    {"nl", nl_lists},
    {"he", he_lists},
    {"tr", tr_lists},
    {"uk", uk_lists},
    {"vi", vi_lists},
    {"sv", sv_lists},
    {"id", id_lists},
    {"cs", cs_lists},
    {0},
};
