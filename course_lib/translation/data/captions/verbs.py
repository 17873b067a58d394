"""The verbs of the lexicon with their frames: who can do what to what, to whom and where."""

from course_lib.translation.data.captions.words import Case, Kind, Setting, Trait, Verb

K, S, T = Kind, Setting, Trait
DATIVE = Case.DATIVE

PERSON = K.ADULT | K.CHILD
HUMAN = PERSON | K.BABY
PET = K.DOG | K.CAT
ANIMAL = PET | K.FARM | K.BIRD | K.POND | K.RODENT | K.WILD
RELATIVE = K.PARENT | K.FRIEND

_CLOTHES = K.HEADWEAR | K.GARMENT | K.SCARF | K.FOOTWEAR | K.EYEWEAR
_CARRIED = K.BAG | K.VESSEL | K.LADDER | K.UMBRELLA | K.TEXTILE
_HELD = K.BALL | K.TOY | K.BAG | K.UMBRELLA | K.FLOWER | K.CANDLE | K.SMALL | K.LEASH
_FOOD = K.FRUIT | K.VEGETABLE | K.SNACK | K.BREAD | K.MEAL | K.FROZEN
_BOUGHT = K.FRUIT | K.VEGETABLE | K.BREAD | K.SNACK | K.FLOWER | K.BOOK | K.PAPER
_REPAIRED = K.CYCLE | K.MOTORBIKE | K.MOTOR | K.BOAT | K.SLED | K.FURNITURE | K.CLOCK
_SIGHT = ANIMAL | K.BUILDING | K.TREE | K.FLOWER
_LYING = K.BOOK | K.PAPER | K.LETTER | K.SMALL | K.CUTLERY | K.TEXTILE | K.FRUIT | K.TOY | K.GARMENT

_OPEN_AIR = S.OUTDOORS | S.WEATHER
_AROUND = S.OUTDOORS | S.ROOM
_REST = _OPEN_AIR | S.SEAT | S.GROUND | S.NEARBY
_SITTING = _REST | S.STOP | S.ROOM | S.STUDY | S.PERCH | S.HIDEOUT
_STANDING = _OPEN_AIR | S.NEARBY | S.STOP | S.ROOM | S.WATER | S.PERCH
_LIVELY = S.INTO | S.THROUGH | S.TOWARDS | S.HIDEOUT

POSTURES = (
    Verb("sitzen", "sit", HUMAN | PET | K.BIRD | K.RODENT, where=_SITTING, traits=T.SHARED),
    Verb("stehen", "stand", PERSON | K.DOG | K.FARM | K.WILD, where=_STANDING),
    Verb("knien", "kneel", PERSON, singular="kniet", where=S.GROUND | S.NEARBY | S.OUTDOORS),
)

ACTIVITIES = (
    Verb("liegen", "lie", HUMAN | PET | K.FARM | K.WILD, where=_OPEN_AIR | S.LYING | S.GROUND | S.HIDEOUT),
    Verb("schlafen", "sleep", HUMAN | ANIMAL, singular="schläft", where=_REST | S.ROOM | S.HIDEOUT | S.PERCH),
    Verb(
        "spielen",
        "play",
        K.CHILD | PET | K.MONKEY | K.RODENT,
        where=_AROUND | S.WEATHER | S.GROUND | S.NEARBY,
    ),
    Verb("warten", "wait", PERSON | K.DOG, where=S.STOP | S.NEARBY | S.WEATHER, traits=T.CALM),
    Verb("tanzen", "dance", PERSON, where=_AROUND | S.WEATHER, traits=T.SHARED),
    Verb("singen", "sing", PERSON | K.BIRD, where=_AROUND | S.PERCH, traits=T.CALM),
    Verb("lachen", "laugh", HUMAN, where=_AROUND, traits=T.CALM),
    Verb("weinen", "cry", K.CHILD | K.BABY, where=_AROUND | S.SEAT, traits=T.CALM),
    Verb("lächeln", "smile", HUMAN, where=S.SEAT | S.ROOM, traits=T.CALM),
    Verb("arbeiten", "work", K.ADULT, where=S.WORKPLACE),
    Verb("schwimmen", "swim", PERSON | K.DOG | K.POND, where=S.WATER, traits=T.SHARED),
    Verb("bellen", "bark", K.DOG, where=_OPEN_AIR | S.NEARBY, traits=T.CALM),
    Verb("grasen", "graze", K.FARM, singular="grast", where=S.OUTDOORS),
    Verb("angeln", "fish", PERSON, where=S.SHORE, traits=T.CALM | T.SHARED),
    Verb("zelten", "camp", PERSON, where=S.CAMP, traits=T.SHARED),
    Verb("frühstücken", "have breakfast", PERSON, where=S.DINING, traits=T.CALM | T.SHARED),
    Verb("telefonieren", "talk on the phone", K.ADULT, where=_AROUND | S.STOP | S.SEAT, traits=T.CALM),
    Verb("kaufen", "shop", PERSON, particle="ein", where=S.SHOP, traits=T.SHARED),
    Verb("ruhen", "rest", PERSON | PET | K.MOUNT, particle="aus", reflexive=True, where=_REST),
    Verb("fallen", "fall down", K.CHILD, particle="hin", singular="fällt", where=_OPEN_AIR),
    Verb("laufen", "run away", K.CHILD | PET | K.FARM | K.RODENT, particle="weg", singular="läuft"),
)

MOTIONS = (
    Verb("gehen", "walk", PERSON | PET, where_to=S.INTO | S.THROUGH | S.TOWARDS, traits=T.SHARED),
    Verb("rennen", "run", PERSON | PET | K.FARM | K.RODENT, where=S.OUTDOORS, where_to=_LIVELY),
    Verb("krabbeln", "crawl", K.BABY, where=S.GROUND, where_to=S.HIDEOUT | S.ROOM),
    Verb("springen", "jump", PERSON | PET | K.MONKEY, where=S.SPRINGY, where_to=S.JUMP),
    Verb("klettern", "climb", PERSON | K.CLIMBER, where_to=S.CLIMB),
    Verb("fliegen", "fly", K.BIRD | K.POND, where_to=S.FLIGHT),
    Verb("setzen", "sit down", PERSON | K.DOG, reflexive=True, where_to=S.SEAT | S.GROUND),
    Verb("legen", "lie down", HUMAN | PET, reflexive=True, where_to=S.GROUND),
)

TRANSITIVES = (
    Verb("tragen", "wear", PERSON, _CLOTHES, singular="trägt", traits=T.WORN),
    Verb("tragen", "wear", K.FEMALE, K.DRESS, singular="trägt", traits=T.WORN),
    Verb("tragen", "carry", PERSON, _CARRIED, singular="trägt", where=_AROUND, traits=T.MANY | T.EACH),
    Verb("tragen", "carry", K.DOG, K.STICK | K.BALL, singular="trägt", where=S.LAWN, traits=T.EACH),
    Verb("halten", "hold", PERSON, _HELD, singular="hält", traits=T.CALM | T.MANY | T.OWN | T.EACH),
    Verb(
        "werfen",
        "throw",
        PERSON,
        K.BALL | K.STICK | K.SNOWBALL,
        singular="wirft",
        where=S.LAWN,
        where_to=S.OVER,
    ),
    Verb(
        "fangen", "catch", PERSON | K.DOG, K.BALL | K.SNOWBALL, singular="fängt", where=S.LAWN, traits=T.HARD
    ),
    Verb(
        "essen",
        "eat",
        PERSON,
        _FOOD,
        singular="isst",
        where=S.OUTDOORS | S.DINING | S.SEAT,
        traits=T.CALM | T.MANY | T.EACH,
    ),
    Verb(
        "fressen",
        "eat",
        K.FARM,
        K.FODDER | K.VEGETABLE,
        singular="frisst",
        where=S.OUTDOORS,
        traits=T.MANY | T.EACH,
    ),
    Verb("fressen", "eat", K.RODENT | K.MONKEY, K.FRUIT, singular="frisst", where=S.OUTDOORS, traits=T.EACH),
    Verb("trinken", "drink", PERSON, K.DRINK, where=S.OUTDOORS | S.DINING | S.SEAT, traits=T.CALM),
    Verb("trinken", "drink", K.ADULT, K.HOT_DRINK, where=S.DINING | S.SEAT, traits=T.CALM),
    Verb("trinken", "drink", PET | K.FARM, K.WATER),
    Verb(
        "lesen",
        "read",
        PERSON,
        K.BOOK | K.PAPER | K.LETTER,
        singular="liest",
        where=_AROUND | S.STUDY | S.SEAT | S.STOP,
        traits=T.CALM,
    ),
    Verb("schreiben", "write", PERSON, K.LETTER, where=S.STUDY | S.SEAT, traits=T.CALM | T.MANY),
    Verb("malen", "paint", PERSON, K.TREE | K.BUILDING | K.FLOWER, where=_AROUND, traits=T.CALM | T.MANY),
    Verb("kaufen", "buy", PERSON, _BOUGHT, where=S.SHOP, traits=T.MANY),
    Verb("verkaufen", "sell", K.ADULT, K.FRUIT | K.VEGETABLE | K.FLOWER | K.TOY, where=S.SHOP, traits=T.MANY),
    Verb(
        "waschen", "wash", PERSON, K.MOTOR | K.DOG | K.VEGETABLE, singular="wäscht", traits=T.MANY | T.FOUND
    ),
    Verb("putzen", "clean", PERSON, K.OPENING | K.FOOTWEAR | K.EYEWEAR, traits=T.OWN),
    Verb("schieben", "push", PERSON, K.CART | K.CYCLE, where=S.WEATHER, where_to=S.THROUGH, traits=T.EACH),
    Verb("schieben", "push", PERSON, K.TROLLEY, where=S.SHOP, traits=T.EACH),
    Verb("ziehen", "pull", PERSON | K.MOUNT, K.SLED, where_to=S.THROUGH),
    Verb("reparieren", "repair", K.ADULT, _REPAIRED, where=S.WORKSHOP, traits=T.HARD | T.FOUND),
    Verb("fotografieren", "photograph", PERSON, _SIGHT, where=S.OUTDOORS, traits=T.CALM | T.MANY | T.DISTANT),
    Verb("füttern", "feed", PERSON, ANIMAL, where=S.OUTDOORS, traits=T.CALM | T.MANY),
    Verb(
        "streicheln",
        "pet",
        PERSON,
        PET | K.MOUNT | K.RODENT,
        where=_AROUND,
        traits=T.CALM | T.HARD | T.STOOPING | T.OWN,
    ),
    Verb("umarmen", "hug", PERSON, K.DOG | K.CHILD | RELATIVE, traits=T.OWN),
    Verb("jagen", "chase", K.DOG, K.CAT | K.RODENT | K.BIRD | K.POND, where=S.OUTDOORS, traits=T.MANY),
    Verb("suchen", "look for", PERSON, K.KEY | K.BALL | K.BAG | K.EYEWEAR | PET, where=_AROUND, traits=T.OWN),
    Verb("kochen", "cook", K.ADULT, K.MEAL, where=S.KITCHEN),
    Verb("backen", "bake", PERSON, K.BAKED | K.BREAD, where=S.KITCHEN, traits=T.MANY),
    Verb("schneiden", "cut", PERSON, K.BREAD | K.BAKED | K.FRUIT | K.VEGETABLE, where=S.KITCHEN),
    Verb("bauen", "build", PERSON, K.SNOWMAN | K.BIRDHOUSE, traits=T.HARD),
    Verb("bauen", "build", PERSON, K.SANDCASTLE, where=S.BEACH, traits=T.HARD),
    Verb("gießen", "water", PERSON, K.FLOWER | K.TREE, traits=T.MANY),
    Verb("pflücken", "pick", PERSON, K.HARVEST, where=S.GREEN, traits=T.STOOPING | T.MANY),
    Verb(
        "fahren", "ride", PERSON, K.CYCLE, DATIVE, "auf", singular="fährt", where_to=S.THROUGH, traits=T.EACH
    ),
    Verb(
        "fahren",
        "ride",
        K.ADULT,
        K.MOTORBIKE,
        DATIVE,
        "auf",
        singular="fährt",
        where_to=S.THROUGH,
        traits=T.EACH,
    ),
    Verb("fahren", "drive", K.ADULT, K.MOTOR, singular="fährt", where_to=S.THROUGH, traits=T.EACH),
    Verb("reiten", "ride", PERSON, K.MOUNT, DATIVE, "auf", where_to=S.THROUGH, traits=T.EACH),
    Verb("spielen", "play", PERSON, K.INSTRUMENT, where=_AROUND, traits=T.CALM),
    Verb("spielen", "play", PERSON, K.PIANO, where=S.ROOM),
    Verb("spielen", "play", PERSON, K.SPORT, where=S.LAWN, traits=T.SHARED),
)

_SEEN_IN_ROOMS = S.STUDY | S.ROOM | S.SEAT

SEPARABLES = (
    Verb(
        "heben",
        "pick up",
        PERSON,
        K.BALL | K.STICK | K.SMALL | K.TOY | K.PAPER,
        particle="auf",
        where=S.OUTDOORS,
        traits=T.HARD | T.STOOPING | T.MANY | T.FOUND,
    ),
    Verb("ziehen", "put on", PERSON, K.GARMENT | K.FOOTWEAR, particle="an", traits=T.HARD | T.OWN),
    Verb("ziehen", "take off", PERSON, K.GARMENT | K.FOOTWEAR, particle="aus", traits=T.OWN),
    Verb("setzen", "put on", PERSON, K.HEADWEAR | K.EYEWEAR, particle="auf", traits=T.OWN),
    Verb(
        "machen",
        "open",
        PERSON,
        K.OPENING | K.LIDDED | K.BOTTLE | K.UMBRELLA,
        particle="auf",
        traits=T.HARD | T.OWN,
    ),
    Verb(
        "machen",
        "close",
        PERSON,
        K.OPENING | K.LIDDED | K.BOTTLE | K.BOOK,
        particle="zu",
        traits=T.HARD | T.OWN,
    ),
    Verb(
        "hängen", "hang up", PERSON, K.PICTURE | K.CLOCK | K.LAMP, particle="auf", where=S.ROOM, traits=T.HARD
    ),
    Verb("heben", "lift up", PERSON, K.BAG | K.DOG | K.BABY, particle="hoch", traits=T.HARD | T.STOOPING),
    Verb("werfen", "throw away", PERSON, K.PAPER | K.LETTER | K.FLOWER, particle="weg", singular="wirft"),
    Verb("bauen", "set up", PERSON, K.TENT, particle="auf", where=S.CAMP, traits=T.HARD),
    Verb(
        "waschen",
        "wash",
        PERSON,
        K.VESSEL | K.CUTLERY,
        particle="ab",
        singular="wäscht",
        where=S.KITCHEN,
        traits=T.MANY,
    ),
    Verb("zünden", "light", PERSON, K.CANDLE, particle="an", where=S.ROOM, traits=T.HARD | T.MANY),
    Verb("packen", "pack", PERSON, K.BOOK | K.VESSEL | K.TEXTILE, particle="ein", traits=T.MANY | T.FOUND),
    Verb("sammeln", "collect", PERSON, K.STICK | K.HARVEST, particle="ein", where=S.GREEN, traits=T.SEVERAL),
    Verb("führen", "walk", PERSON, K.DOG, particle="aus", where=S.OUTDOORS, traits=T.MANY | T.OWN),
    Verb("lächeln", "smile at", PERSON, HUMAN, particle="an", traits=T.CALM),
    Verb("bellen", "bark at", K.DOG, K.CAT | K.BIRD | K.ADULT | K.FARM, particle="an"),
    Verb(
        "sehen",
        "look at",
        PERSON,
        K.PICTURE | K.BOOK,
        particle="an",
        singular="sieht",
        reflexive=True,
        where=_SEEN_IN_ROOMS,
        traits=T.CALM,
    ),
    Verb("sehen", "look at", PERSON, K.BUILDING, particle="an", singular="sieht", reflexive=True),
)

PREPOSITIONALS = (
    Verb(
        "spielen",
        "play with",
        K.CHILD | PET,
        K.BALL | K.TOY,
        DATIVE,
        "mit",
        where=S.LAWN | S.ROOM,
        traits=T.CALM,
    ),
    Verb(
        "sprechen", "talk to", PERSON, PERSON, DATIVE, "mit", singular="spricht", where=_AROUND, traits=T.CALM
    ),
    Verb("warten", "wait for", PERSON, K.TRANSIT, preposition="auf", where=S.STOP),
    Verb("warten", "wait for", PERSON, K.TRAIN, preposition="auf", where=S.STATION),
    Verb(
        "zeigen", "point at", PERSON, _SIGHT | K.BOAT, preposition="auf", traits=T.CALM | T.DISTANT | T.FOUND
    ),
    Verb("schauen", "look at", PERSON, K.CLOCK | K.PHONE, preposition="auf", traits=T.CALM | T.OWN),
    Verb("greifen", "reach for", K.CHILD | K.BABY, K.TOY | K.SNACK | K.FRUIT, DATIVE, "nach", traits=T.FOUND),
    Verb("riechen", "smell", PERSON | K.DOG, K.FLOWER, DATIVE, "an"),
)

DATIVES = (
    Verb("helfen", "help", PERSON, PERSON | RELATIVE, DATIVE, singular="hilft", where=_AROUND, traits=T.OWN),
    Verb("folgen", "follow", K.CHILD | K.DOG | K.POND, PERSON | K.PARENT, DATIVE, traits=T.OWN),
    Verb(
        "schauen",
        "watch",
        PERSON,
        ANIMAL | PERSON,
        DATIVE,
        particle="zu",
        where=_AROUND,
        traits=T.CALM | T.MANY | T.DISTANT,
    ),
    Verb("hören", "listen to", PERSON, K.PERFORMER, DATIVE, particle="zu", where=_AROUND, traits=T.CALM),
    Verb(
        "winken",
        "wave to",
        PERSON,
        PERSON | RELATIVE,
        DATIVE,
        particle="zu",
        traits=T.CALM | T.DISTANT | T.OWN,
    ),
)

DITRANSITIVES = (
    Verb("geben", "give", PERSON, K.FRUIT | K.FLOWER | K.KEY | K.SNACK, singular="gibt", recipients=PERSON),
    Verb(
        "geben",
        "give",
        PERSON,
        K.FRUIT | K.VEGETABLE,
        singular="gibt",
        recipients=K.MOUNT | K.RODENT | K.MONKEY,
    ),
    Verb("zeigen", "show", PERSON, K.PICTURE | K.BOOK | K.LETTER, recipients=PERSON),
    Verb("bringen", "bring", PERSON, K.HOT_DRINK | K.MEAL | K.FLOWER | K.BAKED, recipients=K.ADULT),
    Verb("lesen", "read", PERSON, K.BOOK | K.LETTER, particle="vor", singular="liest", recipients=PERSON),
    Verb("werfen", "throw", PERSON, K.BALL, particle="zu", singular="wirft", recipients=PERSON | K.DOG),
)

PLACINGS = (
    Verb(
        "legen",
        "put",
        PERSON,
        K.BOOK | K.PAPER | K.SMALL | K.CUTLERY | K.TEXTILE | K.FRUIT,
        where_to=S.SURFACE | S.CONTAINER,
    ),
    Verb("stellen", "put", PERSON, K.VESSEL | K.LAMP | K.CANDLE, where_to=S.SURFACE | S.SHELF),
    Verb("hängen", "hang", PERSON, K.PICTURE | K.CLOCK, where_to=S.WALL),
    Verb("hängen", "hang", PERSON, K.LAMP, where_to=S.OVERHEAD),
    Verb("hängen", "hang", PERSON, K.GARMENT | K.HEADWEAR, where_to=S.HOOK),
)

# What things do: their subjects are no living beings. "be" is English "there is".
POSITIONS = (
    Verb("liegen", "lie", _LYING, where=S.SURFACE | S.SHELF, traits=T.MANY),
    Verb("liegen", "lie", K.BALL | K.STICK, where=S.GROUND | S.LAWN, traits=T.MANY),
    Verb("stehen", "be", K.VESSEL | K.LAMP | K.CANDLE, where=S.SURFACE | S.SHELF, traits=T.MANY),
    Verb("stehen", "be", K.CYCLE | K.MOTORBIKE | K.MOTOR | K.CART, where=S.PARKING, traits=T.MANY),
    Verb("stehen", "be", K.BUILDING | K.TREE, where=S.SLOPE),
    Verb("hängen", "hang", K.PICTURE | K.CLOCK, where=S.WALL, traits=T.MANY),
    Verb("hängen", "hang", K.LAMP, where=S.OVERHEAD),
    Verb("hängen", "hang", K.GARMENT | K.HEADWEAR, where=S.HOOK, traits=T.MANY),
)

WEAR, WEAR_DRESS = TRANSITIVES[:2]
HAVE = Verb("haben", "have", PERSON, K.HAIR, singular="hat")
BE = Verb("sein", "be", PERSON, singular="ist")
TRY = Verb("versuchen", "try", PERSON)
BEND_DOWN = Verb("bücken", "bend down", PERSON, reflexive=True)

GROUPS = (
    POSTURES,
    ACTIVITIES,
    MOTIONS,
    TRANSITIVES,
    SEPARABLES,
    PREPOSITIONALS,
    DATIVES,
    DITRANSITIVES,
    PLACINGS,
)
