"""The adjectives of the lexicon, each with the kinds of nouns that it describes."""

from course_lib.translation.data.captions.words import Adjective, Kind

K = Kind

_PERSON = K.ADULT | K.CHILD
_PET = K.DOG | K.CAT
_BEAST = _PET | K.FARM | K.BIRD | K.POND | K.RODENT
_WORN = K.HEADWEAR | K.GARMENT | K.SCARF | K.DRESS | K.FOOTWEAR
_WHEELS = K.CYCLE | K.MOTORBIKE | K.MOTOR
_VEHICLE = _WHEELS | K.BOAT | K.CART | K.SLED
_HELD = K.BALL | K.TOY | K.BAG | K.VESSEL
_BUILT = K.BUILDING | K.TENT | K.SNOWMAN | K.SANDCASTLE
_HOME = K.FURNITURE | K.PICTURE | K.CLOCK | K.LAMP

_SIZED = (
    _BEAST | _HELD | _BUILT | K.FURNITURE | K.PICTURE | K.TREE | K.BAKED | K.STICK | K.MOTOR | K.BOAT | K.SITE
)
_AGING = (
    _WORN | _VEHICLE | _HOME | K.BAG | K.TOY | K.BOOK | K.PAPER | K.TREE | K.OPENING | K.BUILDING | K.BARRIER
)
_SOILED = _WHEELS | K.DOG | K.FOOTWEAR | K.GARMENT | K.VESSEL | K.CUTLERY | K.OPENING | K.TEXTILE
_FRESH_FROM_THE_SHOP = (
    _WORN | _WHEELS | K.EYEWEAR | K.BALL | K.TOY | K.BAG | K.SMALL | K.BOOK | K.TENT | K.INSTRUMENT
)
_BREAKING = _WHEELS | K.TOY | K.FURNITURE | K.CLOCK | K.LAMP | K.BARRIER | K.UMBRELLA
_BRIGHT = K.GARMENT | K.SCARF | K.DRESS | K.TOY | K.UMBRELLA | K.FLOWER | K.TEXTILE | K.RUG | K.BIRD | K.BALL
_LOVELY = K.FLOWER | K.DRESS | K.PICTURE | K.MOUNT | K.SANDCASTLE | K.SITE | K.TREE
_PAINTED = _WORN | _VEHICLE | _HELD | K.UMBRELLA | K.TEXTILE | K.RUG | K.TENT
_OUTDOOR = K.SEAT | K.BARRIER | K.BIRDHOUSE | K.OPENING

QUALITIES = (
    Adjective("groß", "big", _SIZED | K.ADULT | K.WILD | K.UMBRELLA, choices=((K.ADULT, "tall"),)),
    Adjective(
        "klein",
        "small",
        _SIZED | K.CHILD | K.BABY | K.BIRDHOUSE,
        choices=((K.CHILD | K.BABY, "little"),),
        only_before=K.CHILD | K.BABY,
    ),
    Adjective("alt", "old", _AGING | K.ADULT | K.GROWN | K.MOUNT | K.INSTRUMENT | K.PIANO),
    Adjective("jung", "young", K.ADULT | K.GROWN | K.FARM | K.WILD),
    Adjective("müde", "tired", _PERSON | K.BABY | _PET | K.MOUNT, stem="müd"),
    Adjective("hungrig", "hungry", _PERSON | _PET | K.POND | K.WILD | K.FARM),
    Adjective("fröhlich", "cheerful", _PERSON),
    Adjective("freundlich", "friendly", K.ADULT | K.DOG),
    Adjective("nass", "wet", _PET | K.FOOTWEAR | K.TEXTILE | K.UMBRELLA | K.SEAT | K.STICK),
    Adjective("schmutzig", "dirty", _SOILED),
    Adjective("neu", "new", _FRESH_FROM_THE_SHOP),
    Adjective("kaputt", "broken", _BREAKING),
    Adjective("leer", "empty", K.VESSEL | K.BAG | K.CART | K.TROLLEY),
    Adjective("schwer", "heavy", K.BAG | K.LADDER | K.TROLLEY | K.SLED),
    Adjective("schön", "beautiful", _LOVELY),
    Adjective("ruhig", "quiet", K.SITE),
    Adjective("lustig", "funny", K.HEADWEAR | K.SNOWMAN | K.BOOK | K.MONKEY),
    Adjective("bunt", "colorful", _BRIGHT),
    Adjective("gestreift", "striped", K.GARMENT | K.SCARF | K.DRESS | K.TEXTILE | K.CAT | K.UMBRELLA),
    Adjective("warm", "warm", K.WARM_WEAR | K.MEAL | K.TEXTILE),
    Adjective("kalt", "cold", K.DRINK),
    Adjective("heiß", "hot", K.HOT_DRINK | K.MEAL),
    Adjective("frisch", "fresh", K.VEGETABLE | K.BREAD | K.BAKED | K.FODDER),
    Adjective("reif", "ripe", K.FRUIT),
    Adjective(
        "süß",
        "sweet",
        K.FRUIT | _PET | K.RODENT | K.BABY,
        choices=((_PET | K.RODENT | K.BABY, "cute"),),
    ),
    Adjective("rund", "round", K.TABLE),
    Adjective("lang", "long", K.DRESS | K.HAIR | K.LADDER | K.LEASH),
    Adjective("kurz", "short", K.DRESS | K.HAIR | K.LEASH),
    Adjective("dick", "thick", _PET | K.BOOK | K.WARM_WEAR, choices=((_PET, "fat"),)),
    Adjective("weich", "soft", K.TEXTILE | K.RUG),
    Adjective(
        "hoch", "high", K.TREE | K.BARRIER | K.TOWERING, choices=((K.TREE | K.TOWERING, "tall"),), stem="hoh"
    ),
)

COLOURS = (
    Adjective("rot", "red", _PAINTED | _OUTDOOR | K.HAIR | K.FLOWER, colour=True),
    Adjective("blau", "blue", _PAINTED | _OUTDOOR, colour=True),
    Adjective("grün", "green", _PAINTED | _OUTDOOR, colour=True),
    Adjective("gelb", "yellow", _PAINTED | K.FLOWER, colour=True),
    Adjective("schwarz", "black", _PAINTED | _PET | K.FARM | K.EYEWEAR | K.HAIR, colour=True),
    Adjective("weiß", "white", _PAINTED | _OUTDOOR | _BEAST | K.FLOWER, colour=True),
    Adjective("braun", "brown", _PAINTED | _PET | K.FARM | K.RODENT | K.MONKEY | K.HAIR, colour=True),
    Adjective("grau", "gray", _WORN | _WHEELS | K.BAG | K.TEXTILE | _BEAST, colour=True),
    Adjective("dunkel", "dark", K.HAIR | K.GARMENT, stem="dunkl", colour=True),
    Adjective("rosa", "pink", _WORN | K.TOY | K.BALL | K.BAG | K.FLOWER, indeclinable=True, colour=True),
    Adjective("lila", "purple", _WORN | K.BALL | K.BAG | K.TENT, indeclinable=True, colour=True),
    Adjective("blond", "blond", K.ADULT | K.CHILD | K.HAIR, colour=True),
)

ADJECTIVES = (*QUALITIES, *COLOURS)
