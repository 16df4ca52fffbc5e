// corpus/data_math.c: training prompts of mathematics and reasoning.
#include "corpus/prompts_data.h"

static const char *const thing[] = {
    "apples", "marbles", "stamps", "tiles", "candles", "coins",  "tickets",   "bricks",  "books",
    "cups",   "seeds",   "ropes",  "lamps", "keys",    "chairs", "postcards", "bottles", "shirts",
};

static const char *const place[] = {
    "a market stall",  "a harbour",     "a school fair", "a bakery",
    "a printing shop", "an orchard",    "a bus depot",   "a theatre",
    "a laboratory",    "a post office", "a sawmill",     "a greenhouse",
};

static const char *const fn[] = {
    "x^@{n:2:5} e^{-@{n:2:7}x}",
    "ln(@{n:2:9}x + @{n:1:9})",
    "sin(@{n:2:6}x) cos(@{n:2:6}x)",
    "x / (x^2 + @{n:1:20})",
    "sqrt(@{n:1:9} + x^@{n:2:4})",
    "arctan(x / @{n:2:9})",
    "(x^2 - @{n:1:16}) / (x + @{n:1:9})",
    "@{n:2:9}^x / x^@{n:2:4}",
    "x^x",
    "cosh(x) - @{n:1:5}",
    "e^{sin(@{n:2:5}x)}",
    "1 / (1 + @{n:2:9}x^2)",
};

static const char *const calculus[] = {
    "Find the derivative of f(x) = @{fn}",
    "Integrate f(x) = @{fn}",
    "Find the extrema of f(x) = @{fn}",
    "Expand f(x) = @{fn} around 0 to fourth order",
    "Where is f(x) = @{fn} convex?",
    "What is the limit of @{fn} as x grows?",
    "Sketch f(x) = @{fn} by hand",
    "Does the integral of @{fn} from 1 to infinity converge?",
};

static const char *const statement[] = {
    "the sum of the first n odd numbers is n squared",
    "there are infinitely many primes of the form 4k + 3",
    "a tree with n vertices has n - 1 edges",
    "the square root of @{n:2:9} plus the square root of @{n:10:15} is irrational",
    "every finite lattice has a least element",
    "among any @{n:5:13} integers two differ by a multiple of @{n:2:4}",
    "n^3 - n is divisible by 6",
    "the harmonic numbers are unbounded",
    "a graph whose vertices all have even degree decomposes into cycles",
    "the medians of a triangle meet in one point",
    "a continuous function on [0, 1] into itself has a fixed point",
    "the product of two sums of two squares is a sum of two squares",
    "every group of order @{n:2:3} is abelian",
    "the determinant of an antisymmetric matrix of odd size is zero",
    "a bounded monotone sequence converges",
    "the number of subsets of even size equals that of odd size",
    "2^n exceeds n^3 for all n from 10 on",
    "no integer is both a square and two more than a multiple of @{n:1:2} times 3",
};

static const char *const proof_style[] = {
    "by induction",
    "by contradiction",
    "without algebra if possible",
    "with a picture in words",
    "in two different ways",
    "and say where each hypothesis is used",
    "for a reader of sixteen",
    "by a counting argument",
    "and generalize it",
    "and give an example where a weaker hypothesis fails",
};

static const char *const role_pair[] = {
    "knights, who always tell the truth, and knaves, who always lie",
    "day guards, who lie at night, and night guards, who lie by day",
    "honest traders and traders who lie every second sentence",
    "robots whose answers are right exactly on even days",
    "twins, one of whom swaps yes and no",
};

static const char *const claim[] = {
    "\"at least one of us is of the other kind\"",
    "\"we are of the same kind\"",
    "\"exactly two of us lie\"",
    "\"the third one would deny it\"",
    "\"if I lie, so does my neighbour\"",
    "\"none of us told the truth yesterday\"",
    "\"the person to my left is honest\"",
    "\"I said the same yesterday\"",
};

static const char *const clue[] = {
    "the @{job} lives next to the one with the @{pet}",
    "@{name} does not own the @{pet#2}",
    "the owner of the @{pet#3} arrived before @{name#2}",
    "@{name#3} is not the @{job#2}",
    "the @{job#3} came last",
    "either @{name} or @{name#2} is the @{job}",
    "the @{pet} and the @{pet#2} live two doors apart",
    "the @{job#2} arrived right after the @{job}",
};

static const char *const job[] = {
    "baker", "cooper", "dentist", "fisher", "glazier",
    "judge", "miner",  "painter", "tailor", "weaver",
};

static const char *const pet[] = {
    "cat", "parrot", "tortoise", "rabbit", "goat", "canary", "ferret", "carp", "gecko", "pony",
};

static const char *const estimate[] = {
    "piano tuners that a city of @{n:2:9} million people can feed",
    "litres of paint that the lines of @{n:2:90} hundred kilometres of road take",
    "hours that a person spends waiting at red lights in @{n:10:60} years",
    "bytes of text that a novelist types in a career",
    "leaves on an oak of @{n:10:25} metres",
    "phone calls that a help desk for @{n:2:80} thousand customers gets in a day",
    "trees behind a newspaper with @{n:20:400} thousand readers",
    "charging stations that a county with @{n:50:900} thousand electric cars needs",
    "grains of rice in a container ship",
    "meals that an airport with @{n:3:60} million passengers a year sells",
    "steps that a postal worker walks in a year",
    "kilowatt-hours that a server room with @{n:10:400} machines uses in a month",
};

static const char *const show[] = {
    "Show every step.",
    "Check the result by another way.",
    "Give the answer first, then the reason.",
    "State your assumptions.",
    "Explain it to a patient friend.",
    "Be careful with units.",
    "Say what changes if the numbers double.",
    "Point out the tempting wrong answer.",
    "Use exact fractions.",
    "Round only at the end.",
};

static const char *const prompt[] = {
    "@{calculus}. @{show}",
    "@{calculus}, and then do the same for @{fn#2}. @{show}",
    "Prove that @{statement}, @{proof_style}.",
    "A student claims that the proof of \"@{statement}\" is obvious. Write it out @{proof_style}. "
    "@{show}",
    "@{name} buys @{n:12:90} @{thing} at @{place} and sells @{n:3:11} of them each day. @{name#2} "
    "starts with @{n:2:9} and adds @{n:2:7} a day. When do both have the same number? @{show}",
    "At @{place} there are @{n:14:70} @{thing}; @{n:3:9} of every @{n:10:14} are red. Two are "
    "taken without looking. What is the probability that exactly one is red? @{show}",
    "A tank at @{place} fills in @{n:3:12} hours through one pipe and empties in @{n:13:30} hours "
    "through another. Both are open; after @{n:1:3} hours the second is closed. When is it full? "
    "@{show}",
    "Two trains @{n:120:900} km apart leave at the same time towards each other at @{n:40:90} and "
    "@{n:91:160} km/h. A drone flies between them at @{n:170:260} km/h. How far does it fly before "
    "they meet? @{show}",
    "Solve the system @{n:2:9}x + @{n:2:9}y = @{n:10:90} and @{n:2:9}x - @{n:2:9}y = @{n:1:30}. "
    "@{show}",
    "Find all integers n for which n^2 + @{n:2:20}n + @{n:1:60} is a square. @{show}",
    "Compute @{n:2:9}^@{n:20:300} modulo @{n:7:97}. @{show}",
    "What are the last two digits of @{n:3:99}^@{n:50:900} + @{n:3:99}^@{n:5:50}? @{show}",
    "In how many ways can @{n:5:12} people sit at @{n:2:4} round tables if @{name} and @{name#2} "
    "refuse to share one? @{show}",
    "How many words of length @{n:5:9} over the letters a, b, c have no @{n:2:3} equal letters in "
    "a row? @{show}",
    "A biased coin shows heads with probability @{n:1:4}/@{n:5:9}. How many tosses until @{n:2:4} "
    "heads in a row, on average? @{show}",
    "A test finds a fault with probability 0.@{n:90:99} and cries wolf with probability "
    "0.0@{n:1:9}. One device in @{n:50:2000} is faulty. What does a positive result mean? @{show}",
    "On an island live @{role_pair}. @{name} says @{claim}; @{name#2} says @{claim#2}; @{name#3} "
    "is silent. Who is what? @{show}",
    "@{name}, @{name#2} and @{name#3} are a @{job}, a @{job#2} and a @{job#3}, and own a @{pet}, a "
    "@{pet#2} and a @{pet#3}, in some order. You know: @{clue}; @{clue#2}; @{clue#3}; @{clue#4}. "
    "Who owns what, or is something missing? @{show}",
    "Estimate the number of @{estimate}. Give a range and the weakest assumption.",
    "Compare two estimates: the number of @{estimate} and the number of @{estimate#2}. Which is "
    "larger? @{show}",
    "A rectangle has perimeter @{n:20:90} and area @{n:10:99}. Do its diagonals exceed @{n:8:40}? "
    "@{show}",
    "A cone of height @{n:4:30} cm and radius @{n:2:15} cm is filled to @{n:2:9} tenths of its "
    "height. What share of its volume is that? @{show}",
    "The matrix [[@{n:1:9}, @{n:1:9}], [@{n:1:9}, @{n:1:9}]]: eigenvalues, and whether its powers "
    "stay bounded after dividing it by @{n:5:19}. @{show}",
    "Find a recurrence for the number of ways to tile a 2 by n strip with dominoes and @{n:1:3} "
    "kinds of unit squares, and its first @{n:6:9} values. @{show}",
    "A loan of @{n:5:90} thousand at @{n:2:9}.@{n:1:9} % a year is paid back in @{n:36:240} equal "
    "monthly rates. Derive the rate. @{show}",
    "Player A takes 1 to @{n:3:7} @{thing} from a heap of @{n:20:99}, then B, and so on; who takes "
    "the last one loses. Who wins, and how? @{show}",
    "You have a @{n:3:7}-litre and a @{n:8:13}-litre jug. Which amounts can you measure, and how "
    "do you get @{n:1:6} litres? @{show}",
    "Find the mistake: \"@{statement}; therefore, with n = @{n:2:40}, we get @{n:2:900}.\" @{show}",
    "Convert @{n:100:9999} from base ten to base @{n:3:9}, and 0.@{n:11:99} to base two, exactly "
    "or with its period. @{show}",
    "Over @{n:5:12} days a shop sold @{n:20:60}, @{n:20:60}, @{n:20:60}, @{n:20:60} and "
    "@{n:61:140} @{thing}. Mean, median, standard deviation; is the last day an outlier? @{show}",
};

const struct fg_phrase_list fg_words_math[] = {
    FG_PHRASE_LIST(prompt),      FG_PHRASE_LIST(thing),     FG_PHRASE_LIST(place),
    FG_PHRASE_LIST(fn),          FG_PHRASE_LIST(calculus),  FG_PHRASE_LIST(statement),
    FG_PHRASE_LIST(proof_style), FG_PHRASE_LIST(role_pair), FG_PHRASE_LIST(claim),
    FG_PHRASE_LIST(clue),        FG_PHRASE_LIST(job),       FG_PHRASE_LIST(pet),
    FG_PHRASE_LIST(estimate),    FG_PHRASE_LIST(show),      {0},
};
