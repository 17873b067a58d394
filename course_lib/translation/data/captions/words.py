"""What the lexicon is made of: the classes of words, and what goes with what.

A word knows both of its languages and only what a dictionary would say of it. Endings are the business of
`german_forms` and `english_forms`; the order of words is that of `german` and `english`.
"""

from dataclasses import dataclass
from enum import Enum, Flag, StrEnum, auto


class Gender(Enum):
    """The grammatical gender of a German noun. The plural has no genders, so it takes a place of its own."""

    MASCULINE = "m"
    FEMININE = "f"
    NEUTER = "n"
    PLURAL = "pl"


class Case(Enum):
    """The four German cases."""

    NOMINATIVE = "nominative"
    ACCUSATIVE = "accusative"
    DATIVE = "dative"
    GENITIVE = "genitive"


class Determiner(Enum):
    """What stands in front of a noun, in both languages at once: the value is (German, English)."""

    A = ("ein", "a")
    THE = ("der", "the")
    NO = ("kein", "no")
    BARE = ("", "")
    PLAYED = ("", "the")  # "spielt Gitarre" is "is playing the guitar"
    HIS = ("sein", "his")
    HER = ("ihr", "her")
    THEIR = ("ihr", "their")
    TWO = ("zwei", "two")
    THREE = ("drei", "three")
    FOUR = ("vier", "four")
    FIVE = ("fünf", "five")
    SOME = ("einige", "some")
    SEVERAL = ("mehrere", "several")
    MANY = ("viele", "many")


class Phenomenon(StrEnum):
    """What a sentence pair can show. The writers of the two languages note it at the moment they do it."""

    INVERSION = "inversion"  # "Am Strand spielt ein Kind": the verb stays second, the subject moves behind it
    VERB_FINAL = "verb-final"  # "..., während ein Kind schläft"
    RELATIVE_CLAUSE = "relative-clause"  # "ein Mann, der einen Hut trägt"
    OBJECT_RELATIVE = "object-relative"  # "der Ball, den der Junge wirft"
    INFINITIVE = "infinitive"  # "versucht, den Ball zu fangen"
    SEPARABLE_SPLIT = "separable-split"  # "hebt einen Ball auf"
    SEPARABLE_JOINED = "separable-joined"  # "der einen Ball aufhebt", "um einen Ball aufzuheben"
    REFLEXIVE = "reflexive"  # "ruht sich aus"
    ACCUSATIVE = "accusative"  # "sieht einen Hund": only the masculine shows it
    DATIVE_OBJECT = "dative-object"  # "hilft einer Frau"
    PLACE_DATIVE = "place-dative"  # where? "auf dem Tisch"
    PLACE_ACCUSATIVE = "place-accusative"  # where to? "auf den Tisch"
    GENITIVE = "genitive"  # "das Dach des Hauses"
    CONTRACTION = "contraction"  # "im", "am", "ins", "zum"
    STRONG_ADJECTIVE = "strong-adjective"  # "kaltes Wasser"
    MIXED_ADJECTIVE = "mixed-adjective"  # "ein kaltes Getränk"
    WEAK_ADJECTIVE = "weak-adjective"  # "das kalte Getränk"
    WEAK_NOUN = "weak-noun"  # "der Junge", but "den Jungen"
    PLURAL = "plural"  # "viele Hunde"
    NUMBER = "number"  # "zwei Hunde"
    COMPOUND = "compound"  # "Hundeleine", dog leash
    COORDINATION = "coordination"  # "sitzt und liest", "ein Mann und eine Frau"
    NEGATION = "negation"  # "keinen Hut", "ohne Hut"
    POSSESSIVE = "possessive"  # "mit seinem Hund"
    WORD_CHOICE = "word-choice"  # one German word, several English ones: "trägt" is "carries" or "wears"
    NUMBER_MISMATCH = "number-mismatch"  # "eine Hose" is one, "pants" are many
    ENGLISH_AN = "english-an"  # "an apple"
    IRREGULAR_PLURAL = "irregular-plural"  # "children", "mice"


class Kind(Flag):
    """What a noun names. It may be of several kinds; verbs, adjectives and places name those they go with."""

    # people
    MALE = auto()
    FEMALE = auto()
    ADULT = auto()
    CHILD = auto()
    BABY = auto()
    PARENT = auto()
    FRIEND = auto()
    PERFORMER = auto()
    WORKER = auto()
    CROWD = auto()
    # animals
    DOG = auto()
    CAT = auto()
    GROWN = auto()
    MOUNT = auto()
    FARM = auto()
    BIRD = auto()
    POND = auto()
    RODENT = auto()
    WILD = auto()
    MONKEY = auto()
    CLIMBER = auto()
    # what is worn
    HEADWEAR = auto()
    GARMENT = auto()
    WARM_WEAR = auto()
    SCARF = auto()
    DRESS = auto()
    FOOTWEAR = auto()
    EYEWEAR = auto()
    HAIR = auto()
    # what is held, carried, thrown
    BALL = auto()
    STICK = auto()
    SNOWBALL = auto()
    TOY = auto()
    BAG = auto()
    LIDDED = auto()
    UMBRELLA = auto()
    LADDER = auto()
    VESSEL = auto()
    BOTTLE = auto()
    SMALL = auto()
    KEY = auto()
    PHONE = auto()
    CUTLERY = auto()
    TEXTILE = auto()
    RUG = auto()
    BOOK = auto()
    PAPER = auto()
    LETTER = auto()
    PICTURE = auto()
    CLOCK = auto()
    LAMP = auto()
    CANDLE = auto()
    FLOWER = auto()
    LEASH = auto()
    # what is eaten and drunk
    FRUIT = auto()
    HARVEST = auto()
    VEGETABLE = auto()
    BAKED = auto()
    SNACK = auto()
    BREAD = auto()
    MEAL = auto()
    FROZEN = auto()
    WATER = auto()
    DRINK = auto()
    HOT_DRINK = auto()
    FODDER = auto()
    # what is played, ridden, driven, built
    INSTRUMENT = auto()
    PIANO = auto()
    SPORT = auto()
    CYCLE = auto()
    MOTORBIKE = auto()
    MOTOR = auto()
    TRANSIT = auto()
    TRAIN = auto()
    BOAT = auto()
    CART = auto()
    TROLLEY = auto()
    SLED = auto()
    TENT = auto()
    SNOWMAN = auto()
    SANDCASTLE = auto()
    BIRDHOUSE = auto()
    # what stands around
    TREE = auto()
    OPENING = auto()
    BUILDING = auto()
    TOWERING = auto()
    FURNITURE = auto()
    TABLE = auto()
    SEAT = auto()
    BARRIER = auto()
    SITE = auto()
    PART = auto()


class Setting(Flag):
    """The sort of place that a phrase such as "im Park" or "auf das Sofa" names."""

    OUTDOORS = auto()
    WEATHER = auto()  # "im Regen"
    ROOM = auto()
    KITCHEN = auto()
    DINING = auto()
    STUDY = auto()
    SEAT = auto()
    GROUND = auto()
    LYING = auto()
    SPRINGY = auto()
    NEARBY = auto()  # "vor dem Haus"
    HIDEOUT = auto()  # "unter dem Tisch"
    PERCH = auto()  # "auf dem Dach"
    WATER = auto()
    SHORE = auto()
    BEACH = auto()
    CAMP = auto()
    LAWN = auto()
    GREEN = auto()
    STOP = auto()
    STATION = auto()
    SHOP = auto()
    WORKPLACE = auto()
    WORKSHOP = auto()
    SLOPE = auto()
    # only for things
    SURFACE = auto()
    SHELF = auto()
    WALL = auto()
    OVERHEAD = auto()
    HOOK = auto()
    PARKING = auto()
    CONTAINER = auto()
    # only for where to
    INTO = auto()
    THROUGH = auto()
    TOWARDS = auto()
    OVER = auto()
    JUMP = auto()
    CLIMB = auto()
    FLIGHT = auto()


class Trait(Flag):
    """What else the grammar must know of a verb."""

    WORN = auto()  # the object is on the subject's body
    CALM = auto()  # can be done while sitting or standing
    HARD = auto()  # can be tried: "versucht, ..."
    STOOPING = auto()  # one bends down for it: "bückt sich, um ..."
    SHARED = auto()  # can be done in company: "mit einem Freund"
    MANY = auto()  # can be done to several things: "kauft drei Äpfel"
    SEVERAL = auto()  # is always done to several things: "sammelt Steine ein"
    EACH = auto()  # several people do it to one thing each: "zwei Frauen fahren auf Fahrrädern"
    OWN = auto()  # the object may be one's own: "sucht seinen Schlüssel"
    FOUND = auto()  # the object may be lying around: "hebt einen Ball auf, der im Gras liegt"
    DISTANT = auto()  # the object may be busy elsewhere: "schaut einem Hund zu, der im See schwimmt"


NOTHING = Kind(0)
NOWHERE = Setting(0)
PLAIN = Trait(0)


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun. `weak` ones end in -(e)n in every case but the nominative: "der Junge, den Jungen".

    `mass` nouns stand without an article ("Wasser"). `english_number` is given where English disagrees: a
    "Hose" is one thing, "pants" are many; "Haare" are many, "hair" is not.
    """

    german: str
    gender: Gender
    plural: str
    english: str
    kinds: Kind
    english_plural: str = ""
    genitive: str = ""
    weak: bool = False
    mass: bool = False
    compound: bool = False
    english_number: str = ""


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective. `stem` is given where it changes before an ending ("hoch", "hoher").

    `choices` are the English words for some kinds of nouns: "ein großer Hund" is big, "ein großer Mann" is
    tall. Of the kinds in `only_before` it is said in front of the noun only: "a little boy", but not "the boy
    is little". `colour` adjectives stand closest to the noun.
    """

    german: str
    english: str
    kinds: Kind
    choices: tuple[tuple[Kind, str], ...] = ()
    only_before: Kind = NOTHING
    stem: str = ""
    indeclinable: bool = False
    colour: bool = False


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with its frame: who does it, to what, to whom, where and where to.

    `german` is the infinitive without the separable `particle`. `singular` is given where the third person
    does not follow the rule. `english` is the base form with what belongs to it: "pick up", "wait for". An
    object stands in `case`, after `preposition` if there is one ("auf den Bus warten").
    """

    german: str
    english: str
    subjects: Kind
    objects: Kind = NOTHING
    case: Case = Case.ACCUSATIVE
    preposition: str = ""
    particle: str = ""
    singular: str = ""
    reflexive: bool = False
    recipients: Kind = NOTHING
    where: Setting = NOWHERE
    where_to: Setting = NOWHERE
    traits: Trait = PLAIN

    def can(self, trait: Trait) -> bool:
        """Whether the verb has a trait."""
        return trait in self.traits

    @property
    def lemma(self) -> str:
        """The verb as a dictionary lists it: "aufheben", "warten auf", "sich setzen"."""
        words = ["sich"] if self.reflexive else []
        words.append(self.particle + self.german)
        if self.preposition:
            words.append(self.preposition)
        return " ".join(words)


@dataclass(frozen=True, eq=False)
class Place:
    """A preposition with a noun: where something happens, or where to. `visitors` are those found there.

    `determiners` are the articles that sound natural. `part` is for "am Rand des Waldes", where the noun is
    the whole.
    """

    german: str
    english: str
    case: Case
    noun: Noun
    setting: Setting
    visitors: Kind
    determiners: tuple[Determiner, ...] = (Determiner.THE,)
    part: Noun | None = None


@dataclass(frozen=True, eq=False)
class Phrase:
    """Words that come as they are, in both languages."""

    german: str
    english: str


@dataclass(frozen=True, eq=False)
class Weather:
    """A clause about the weather as it stands after a conjunction, and what people do `because` of it.

    Each reason is a German verb and its object: ("tragen", "Schal").
    """

    german: str
    english: str
    because: tuple[tuple[str, str], ...] = ()
