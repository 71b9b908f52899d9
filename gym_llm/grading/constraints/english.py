"""Facts about English and emoji for constraints: closed lists and rules of thumb."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONJUNCTIONS = _words("and but for nor or so yet")

PRONOUNS = _words(
    """
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves
    """
)

STOP_WORDS = PRONOUNS - {"mine", "us"} | _words(
    """
    a an the this that these those who whom which what when where why how
    am is are was were be been being have has had having do does did doing will can should don now just
    and but if or because as until while of at by for with about against between into through during before after
    above below to from up down in out on off over under
    again further then once here there all any both each few more most other some such no nor not only own same so than
    too very
    s t d ll m o re ve y ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren
    won wouldn
    """
)
"""The words that carry no meaning of their own; of `don't` and the like each half."""

NAMES = (
    "Emma", "Liam", "Sophia", "Jackson", "Olivia", "Noah", "Ava", "Lucas", "Isabella", "Mason", "Mia", "Ethan",
    "Charlotte", "Alexander", "Amelia", "Benjamin", "Harper", "Leo", "Zoe", "Daniel", "Chloe", "Samuel", "Lily",
    "Matthew", "Grace", "Owen", "Abigail", "Gabriel", "Ella", "Jacob", "Scarlett", "Nathan", "Victoria", "Elijah",
    "Layla", "Nicholas", "Audrey", "David", "Hannah", "Christopher", "Penelope", "Thomas", "Nora", "Andrew", "Aria",
    "Joseph", "Claire", "Ryan", "Stella", "Jonathan",
)  # fmt: skip
"""The fifty names that IFBench's prompts list."""

_VERBS = _words(
    """
    accept access account achieve act adapt add address adjust admire admit adopt advance advise affect afford agree
    aim allow analyze announce answer anticipate appear apply appreciate approach argue arrange arrive ask assemble
    assert assess assign assist assume assure attach attain attempt attend avoid bake balance be bear beat become
    begin behold believe belong bend bet blend boil book boost borrow bring broaden browse build burn buy calculate
    call calm capture care carry catch celebrate challenge change check cherish choose claim clarify classify clean
    clear click climb close collaborate collect combine come communicate compare compete compile complete compute
    conceive conclude conduct configure confirm connect consider consist construct consult consume contact contain
    continue contribute control convert convey convince cook copy correct count cover crack craft create cultivate
    cut dance decide declare decrease deepen define delete deliver delve demand demonstrate deny depend derive
    describe deserve design desire detect determine develop devote dig diminish direct disable discover discuss
    display dissolve distinguish dive divide do document download draft draw dream drink drive drop earn eat edit
    educate eliminate embark embrace emerge emphasize employ empower enable encourage end endure engage enhance
    enjoy enrich ensure enter envision escape establish estimate evaluate evolve examine exceed exchange execute
    exercise exist expand expect experience experiment explain explore export express extend extract face facilitate
    fail fall feed feel fetch fight figure fill filter find finish fit fix flee float flow fly focus fold follow
    forge forget forgive form format formulate foster free fry fulfill gain gather generate get give go grab grasp
    greet grill grow guess guide handle happen have hear heat help hide highlight hire hold honor hope identify
    ignore illustrate imagine immerse implement imply import improve include incorporate increase indicate infer
    inform initialize initiate insert inspect inspire install integrate intend interpret introduce invent invest
    investigate invite involve isolate iterate join journey judge jump justify keep kill know launch lay lead learn
    leave lend let leverage lie lift like limit list listen live load locate look lose love maintain make manage map
    mark marvel master match matter maximize mean measure meditate meet melt mention merge mind minimize mix modify
    monitor move multiply navigate need negotiate note notice nurture observe obtain occur offer open operate
    optimize order organize originate outline overcome own pack paint participate pass pause pay perceive perform
    permit pick picture place plan plant play plot plunge point ponder possess pour practice praise pray prefer
    prepare present preserve press prevent print prioritize proceed process produce program progress promise promote
    propose protect prove provide publish pull pursue push put question quit quote raise reach react read realize
    recall receive recognize recommend reconsider record recover reduce refer refine reflect refuse regard register
    reject relate relax release rely remain remember remind remove rename repair repeat replace reply report
    represent request require research resolve respect respond rest restore result retain return reveal review
    revise rewrite ride rinse rise roll rotate run sail save say scan schedule search season secure see seek seem
    select sell send separate serve set settle shape share shift shine show shut simmer simplify sing sit sketch
    sleep slice smile solve sort speak specify spend split spread sprinkle stand start state stay step stick stir
    stop store strengthen strive structure struggle study submit substitute subtract succeed suggest sum summarize
    supply support suppose surprise survive sustain swim switch tackle take talk target taste teach tell tend test
    thank think thrive throw tie touch track train transform translate transport travel treat trust try turn type
    uncover understand undertake unfold unite unleash unlock update upgrade upload urge use utilize validate value
    vary verify view visit visualize wait wake walk want warm wash watch wear weave weigh welcome whisk win wish
    witness wonder work worry write yield zoom am is are was were been has had does did done gone went came saw seen
    made took taken gave given got found thought said told began begun wrote written built bought brought caught
    chose chosen felt kept led left lost met paid ran sent spoke spoken stood taught understood won
    """
)
_ENDINGS = (
    ("ies", "y"), ("es", "e"), ("es", ""), ("s", ""), ("ied", "y"), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
)  # fmt: skip


def is_verb(word: str) -> bool:
    """Whether a word can be a verb, in any form, as a first word is likely to be.

    >>> is_verb("Imagine"), is_verb("running"), is_verb("The")
    (True, True, False)
    """
    word = word.lower()
    if word in _VERBS:
        return True
    for ending, base in _ENDINGS:
        if word.endswith(ending):
            stem = word[: -len(ending)]
            if stem + base in _VERBS or (len(stem) > 2 and stem[-1] == stem[-2] and stem[:-1] in _VERBS):
                return True
    return False


_VOWELS = re.compile(r"[aeiouy]+")
_TWO_VOWELS = re.compile(
    r"(?<![tscgxq])i(?:a|o|u|en)|[aeiou]y(?=[aeiou])|(?<![qg])u(?:a|ou)|eo|ea(?:t(?=[ei])|\Z)|[aeiouy]ing\Z"
)
_SILENT = re.compile(
    r"(?:[^aeiouyl]e|[aeiouy]le|[^tdaeiou]ed|[^sxzcghaeioul]es|[aeiouy]les|[^cs]hes)\Z"
    r"|[^aeiouyl]e(?=(?:ment|ful|ly|less|ness)s?\Z)"
)


def count_syllables(word: str) -> int:
    """Count the syllables of a word in small letters by its groups of vowels: right for nine words in ten.

    >>> [count_syllables(word) for word in ("cat", "apple", "make", "syllable", "question", "being")]
    [1, 2, 1, 3, 2, 2]
    """
    count = len(_VOWELS.findall(word)) + len(_TWO_VOWELS.findall(word)) - len(_SILENT.findall(word))
    return max(count, 1) if word.isalpha() else count


_EMOJI = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa"
    "\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615\u2618\u261d\u2620\u2622\u2623"
    "\u2626\u262a\u262e\u262f\u2638-\u263a\u2640\u2642\u2648-\u2653\u265f\u2660\u2663\u2665\u2666\u2668\u267b\u267e"
    "\u267f\u2692-\u2697\u2699\u269b\u269c\u26a0\u26a1\u26a7\u26aa\u26ab\u26b0\u26b1\u26bd\u26be\u26c4\u26c5\u26c8"
    "\u26ce\u26cf\u26d1\u26d3\u26d4\u26e9\u26ea\u26f0-\u26f5\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712"
    "\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763\u2764\u2795-\u2797"
    "\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f004\U0001f0cf\U0001f170\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f201\U0001f202"
    "\U0001f21a\U0001f22f\U0001f232-\U0001f23a\U0001f250\U0001f251\U0001f300-\U0001f321\U0001f324-\U0001f393"
    "\U0001f396\U0001f397\U0001f399-\U0001f39b\U0001f39e-\U0001f3f0\U0001f3f3-\U0001f3f5\U0001f3f7-\U0001f4fd"
    "\U0001f4ff-\U0001f53d\U0001f549-\U0001f54e\U0001f550-\U0001f567\U0001f56f\U0001f570\U0001f573-\U0001f57a"
    "\U0001f587\U0001f58a-\U0001f58d\U0001f590\U0001f595\U0001f596\U0001f5a4\U0001f5a5\U0001f5a8\U0001f5b1\U0001f5b2"
    "\U0001f5bc\U0001f5c2-\U0001f5c4\U0001f5d1-\U0001f5d3\U0001f5dc-\U0001f5de\U0001f5e1\U0001f5e3\U0001f5e8"
    "\U0001f5ef\U0001f5f3\U0001f5fa-\U0001f64f\U0001f680-\U0001f6c5\U0001f6cb-\U0001f6d2\U0001f6d5-\U0001f6d8"
    "\U0001f6dc-\U0001f6e5\U0001f6e9\U0001f6eb\U0001f6ec\U0001f6f0\U0001f6f3-\U0001f6fc\U0001f7e0-\U0001f7eb"
    "\U0001f7f0\U0001f90c-\U0001f93a\U0001f93c-\U0001f945\U0001f947-\U0001f9ff\U0001fa70-\U0001fa7c\U0001fa80-\U0001fa8a"
    "\U0001fa8e-\U0001fac6\U0001fac8\U0001facd-\U0001fadc\U0001fadf-\U0001faea\U0001faef-\U0001faf8]"
)


def is_emoji(character: str) -> bool:
    """Whether a character is an emoji by itself (Unicode 17), in colour or not."""
    return _EMOJI.fullmatch(character) is not None
