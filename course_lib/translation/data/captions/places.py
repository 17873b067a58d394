"""Where and where to: prepositions with the nouns they go with, and fixed phrases of time and weather.

German answers "where?" with the dative ("auf dem Tisch") and "where to?" with the accusative ("auf den
Tisch"). English has its own mind about prepositions ("im Bus" is "on the bus"), so every row names both.
"""

from course_lib.translation.data.captions.nouns import RIVERBANK, ROADSIDE, noun
from course_lib.translation.data.captions.verbs import HUMAN, PERSON, PET
from course_lib.translation.data.captions.words import (
    NOTHING,
    Case,
    Determiner,
    Kind,
    Noun,
    Phrase,
    Place,
    Setting,
    Weather,
)

K, S = Kind, Setting
THE = (Determiner.THE,)
EITHER = (Determiner.THE, Determiner.A)
A = (Determiner.A,)

_WILDLIFE = K.BIRD | K.RODENT
_WALKER = PERSON | K.DOG
_FARM = K.FARM | K.POND
_NEAR_HOUSE = HUMAN | PET
_LEAPER = PERSON | PET


def _where(
    german: str,
    english: str,
    name: str,
    setting: Setting,
    visitors: Kind,
    determiners: tuple[Determiner, ...] = THE,
) -> Place:
    return Place(german, english, Case.DATIVE, noun(name), setting, visitors, determiners)


def _where_to(
    german: str,
    english: str,
    name: str,
    setting: Setting,
    visitors: Kind,
    determiners: tuple[Determiner, ...] = THE,
) -> Place:
    case = Case.DATIVE if german == "zu" else Case.ACCUSATIVE
    return Place(german, english, case, noun(name), setting, visitors, determiners)


def _part(german: str, english: str, part: Noun, whole: str, setting: Setting, visitors: Kind) -> Place:
    return Place(german, english, Case.DATIVE, noun(whole), setting, visitors, THE, part)


WHERE = (
    _where("in", "in", "Park", S.OUTDOORS | S.LAWN, HUMAN | K.DOG | _WILDLIFE, EITHER),
    _where(
        "in",
        "in",
        "Garten",
        S.OUTDOORS | S.WORKPLACE | S.DINING | S.LAWN | S.GREEN,
        HUMAN | PET | _WILDLIFE,
        EITHER,
    ),
    _where("in", "in", "Wald", S.OUTDOORS | S.CAMP, _WALKER | _WILDLIFE, EITHER),
    _where("in", "in", "Stadt", S.OUTDOORS | S.SHOP, PERSON, EITHER),
    _where("in", "in", "Dorf", S.OUTDOORS | S.SHOP, PERSON, EITHER),
    _where("in", "at", "Zoo", S.OUTDOORS, PERSON | K.WILD),
    _where("in", "at", "Hafen", S.OUTDOORS | S.WORKPLACE, PERSON),
    _where("an", "on", "Strand", S.OUTDOORS | S.BEACH | S.CAMP | S.LAWN, HUMAN | K.DOG | K.MOUNT, EITHER),
    _where("an", "at", "See", S.OUTDOORS | S.SHORE | S.CAMP, _WALKER | K.POND, EITHER),
    _where("an", "by", "Fluss", S.OUTDOORS | S.SHORE, _WALKER | _FARM | K.WILD, EITHER),
    _where("an", "by", "Meer", S.OUTDOORS | S.SHORE | S.BEACH | S.CAMP, _WALKER),
    _where("auf", "on", "Spielplatz", S.OUTDOORS | S.LAWN, HUMAN, EITHER),
    _where("auf", "at", "Markt", S.OUTDOORS | S.SHOP | S.WORKPLACE, PERSON, EITHER),
    _where("auf", "on", "Straße", S.OUTDOORS | S.WORKPLACE, PERSON | PET, EITHER),
    _where(
        "auf", "in", "Wiese", S.OUTDOORS | S.LAWN | S.GREEN | S.CAMP, HUMAN | K.DOG | _FARM | K.RODENT, EITHER
    ),
    _where("auf", "in", "Feld", S.OUTDOORS | S.WORKPLACE | S.GREEN, _WALKER | K.FARM | K.BIRD, EITHER),
    _where("auf", "on", "Bauernhof", S.OUTDOORS | S.WORKPLACE | S.GREEN, PERSON | PET | _FARM, EITHER),
    _where("in", "in", "Schnee", S.WEATHER, _WALKER | K.MOUNT),
    _where("in", "in", "Regen", S.WEATHER, _WALKER | K.FARM),
    _where("in", "in", "Sonne", S.WEATHER, HUMAN | PET | K.FARM),
    _where("in", "in", "Küche", S.ROOM | S.KITCHEN | S.DINING | S.WORKPLACE, HUMAN | PET, EITHER),
    _where("in", "in", "Wohnzimmer", S.ROOM, HUMAN | PET),
    _where("in", "in", "Klassenzimmer", S.ROOM | S.STUDY, K.CHILD),
    _where("in", "in", "Café", S.ROOM | S.STUDY | S.DINING, PERSON, EITHER),
    _where("in", "in", "Restaurant", S.ROOM | S.DINING | S.WORKPLACE, PERSON, EITHER),
    _where("in", "in", "Bibliothek", S.STUDY | S.WORKPLACE, PERSON, EITHER),
    _where("in", "in", "Werkstatt", S.WORKPLACE | S.WORKSHOP, K.ADULT, EITHER),
    _where("in", "on", "Bus", S.SEAT, PERSON),
    _where("in", "on", "Zug", S.SEAT, PERSON),
    _where("in", "in", "Supermarkt", S.SHOP | S.WORKPLACE, PERSON),
    _where("an", "at", "Bahnhof", S.STOP | S.STATION, PERSON),
    _where("an", "at", "Bushaltestelle", S.STOP, PERSON, EITHER),
    _where("auf", "on", "Balkon", S.SEAT | S.DINING, PERSON | PET),
    _where("auf", "on", "Brücke", S.OUTDOORS, PERSON, EITHER),
    _where("auf", "on", "Bank", S.SEAT | S.LYING, HUMAN | PET, EITHER),
    _where("auf", "on", "Parkbank", S.SEAT | S.LYING, PERSON, EITHER),
    _where("auf", "on", "Stuhl", S.SEAT, PERSON | K.CAT, A),
    _where("auf", "on", "Gartenstuhl", S.SEAT, PERSON | K.CAT, A),
    _where("auf", "on", "Sofa", S.SEAT | S.GROUND | S.SPRINGY, HUMAN | PET, EITHER),
    _where("auf", "on", "Bett", S.SEAT | S.GROUND | S.SPRINGY, HUMAN | PET, EITHER),
    _where("auf", "on", "Teppich", S.GROUND, HUMAN | PET, EITHER),
    _where("auf", "on", "Decke", S.GROUND, HUMAN | PET, EITHER),
    _where("auf", "on", "Boden", S.GROUND, HUMAN | PET | K.WILD),
    _where("in", "in", "Gras", S.GROUND, HUMAN | PET | _FARM | K.RODENT),
    _where("auf", "on", "Mauer", S.PERCH | S.SEAT, PERSON | K.CAT, EITHER),
    _where("auf", "on", "Treppe", S.SEAT, PERSON | K.CAT),
    _where("auf", "on", "Zaun", S.PERCH, K.BIRD | K.CAT, EITHER),
    _where("auf", "on", "Dach", S.PERCH | S.WORKPLACE, K.BIRD | K.CAT | K.WORKER),
    _where("auf", "in", "Baum", S.PERCH, K.BIRD | K.CLIMBER, A),
    _where("unter", "under", "Baum", S.NEARBY, HUMAN | PET | K.FARM | K.RODENT | K.WILD, EITHER),
    _where("unter", "under", "Apfelbaum", S.NEARBY, HUMAN | K.FARM, EITHER),
    _where("unter", "under", "Tisch", S.HIDEOUT, PET | K.BABY, EITHER),
    _where("unter", "under", "Bett", S.HIDEOUT, PET),
    _where("hinter", "behind", "Sofa", S.HIDEOUT, PET),
    _where("hinter", "behind", "Haus", S.NEARBY, _NEAR_HOUSE | K.FARM, EITHER),
    _where("hinter", "behind", "Zaun", S.NEARBY, PET | K.FARM | K.WILD, EITHER),
    _where("vor", "in front of", "Haus", S.NEARBY, _NEAR_HOUSE, EITHER),
    _where("vor", "in front of", "Kirche", S.NEARBY, PERSON, EITHER),
    _where("vor", "in front of", "Museum", S.NEARBY, PERSON),
    _where("vor", "in front of", "Tür", S.NEARBY, PERSON | PET),
    _where("vor", "in front of", "Zelt", S.NEARBY, _WALKER, EITHER),
    _where("neben", "next to", "Auto", S.NEARBY, _WALKER, A),
    _where("neben", "next to", "Fahrrad", S.NEARBY, PERSON, A),
    _where("neben", "next to", "Schneemann", S.NEARBY, _WALKER, A),
    _where("an", "by", "Fenster", S.NEARBY, PERSON | K.CAT),
    _where("in", "in", "See", S.WATER, _WALKER | K.POND),
    _where("in", "in", "Meer", S.WATER, _WALKER),
    _where("in", "in", "Fluss", S.WATER, _WALKER | K.POND | K.WILD),
    _where("in", "in", "Wasser", S.WATER, _WALKER | K.POND | K.FARM | K.WILD),
    _where("auf", "on", "Teich", S.WATER, K.POND),
    _where("an", "at", "Teich", S.OUTDOORS | S.SHORE, _WALKER | K.POND, EITHER),
    _part("an", "on", noun("Ufer"), "See", S.OUTDOORS | S.SHORE, _WALKER | K.POND),
    _part("an", "on", RIVERBANK, "Fluss", S.OUTDOORS | S.SHORE, _WALKER | K.POND | K.WILD),
    _part("an", "at", noun("Rand"), "Wald", S.OUTDOORS | S.CAMP, _WALKER | K.RODENT),
    _part("an", "at", noun("Rand"), "Feld", S.OUTDOORS, _WALKER | K.FARM),
    _part("an", "on", ROADSIDE, "Straße", S.OUTDOORS | S.STOP, PERSON | PET),
    _part("an", "at", noun("Ende"), "Straße", S.NEARBY | S.STOP, PERSON),
    _part("in", "in", noun("Mitte"), "Park", S.OUTDOORS | S.LAWN, HUMAN | K.DOG),
    _part("in", "in", noun("Mitte"), "Wiese", S.OUTDOORS, HUMAN | _FARM),
    _part("auf", "on", noun("Dach"), "Haus", S.PERCH | S.WORKPLACE, K.BIRD | K.CAT | K.WORKER),
    _part("auf", "on", noun("Dach"), "Kirche", S.PERCH | S.WORKPLACE, K.BIRD | K.WORKER),
    _part("vor", "in front of", noun("Tür"), "Haus", S.NEARBY, PERSON | PET),
    _part("vor", "in front of", noun("Tür"), "Café", S.NEARBY, PERSON | PET),
    # where things are
    _where("auf", "on", "Tisch", S.SURFACE, NOTHING, EITHER),
    _where("auf", "on", "Küchentisch", S.SURFACE, NOTHING),
    _where("auf", "on", "Stuhl", S.SURFACE, NOTHING, EITHER),
    _where("in", "on", "Regal", S.SHELF, NOTHING),
    _where("an", "on", "Wand", S.WALL, NOTHING),
    _where("über", "over", "Sofa", S.WALL, NOTHING),
    _where("über", "over", "Tisch", S.OVERHEAD, NOTHING),
    _where("an", "on", "Tür", S.HOOK, NOTHING),
    _where("vor", "in front of", "Haus", S.PARKING, NOTHING, EITHER),
    _where("vor", "in front of", "Kirche", S.PARKING, NOTHING),
    _where("vor", "in front of", "Supermarkt", S.PARKING, NOTHING),
    _where("neben", "next to", "Zaun", S.PARKING, NOTHING, EITHER),
    _where("unter", "under", "Baum", S.PARKING, NOTHING, EITHER),
    _where("auf", "on", "Straße", S.PARKING, NOTHING),
    _where("auf", "on", "Hügel", S.SLOPE, NOTHING, EITHER),
    _where("auf", "on", "Berg", S.SLOPE, NOTHING, EITHER),
    _where("auf", "in", "Wiese", S.SLOPE, NOTHING, EITHER),
)

WHERE_TO = (
    _where_to("in", "into", "Park", S.INTO, _WALKER),
    _where_to("in", "into", "Garten", S.INTO, PERSON | PET),
    _where_to("in", "into", "Wald", S.INTO, _WALKER | K.RODENT),
    _where_to("in", "into", "Haus", S.INTO, PERSON | PET, EITHER),
    _where_to("in", "into", "Küche", S.INTO | S.ROOM, HUMAN | PET),
    _where_to("in", "into", "Wohnzimmer", S.INTO | S.ROOM, HUMAN | PET),
    _where_to("in", "into", "Museum", S.INTO, PERSON),
    _where_to("in", "into", "Bibliothek", S.INTO, PERSON),
    _where_to("auf", "into", "Straße", S.INTO, PERSON | K.DOG),
    _where_to("auf", "into", "Wiese", S.INTO, _WALKER | K.FARM),
    _where_to("an", "to", "Strand", S.TOWARDS, _WALKER),
    _where_to("an", "to", "Meer", S.TOWARDS, _WALKER),
    _where_to("zu", "to", "See", S.TOWARDS, _WALKER),
    _where_to("zu", "to", "Fluss", S.TOWARDS, _WALKER | K.FARM),
    _where_to("zu", "to", "Markt", S.TOWARDS, PERSON),
    _where_to("zu", "to", "Bahnhof", S.TOWARDS, PERSON),
    _where_to("zu", "to", "Bushaltestelle", S.TOWARDS, PERSON),
    _where_to("zu", "to", "Spielplatz", S.TOWARDS, K.CHILD),
    _where_to("durch", "through", "Park", S.THROUGH, _WALKER),
    _where_to("durch", "through", "Wald", S.THROUGH, _WALKER),
    _where_to("durch", "through", "Stadt", S.THROUGH, PERSON),
    _where_to("durch", "through", "Dorf", S.THROUGH, PERSON),
    _where_to("durch", "through", "Schnee", S.THROUGH, _WALKER | K.MOUNT),
    _where_to("über", "across", "Straße", S.THROUGH, PERSON | PET, EITHER),
    _where_to("über", "across", "Brücke", S.THROUGH, PERSON, EITHER),
    _where_to("über", "across", "Wiese", S.THROUGH, _WALKER | K.FARM),
    _where_to("über", "across", "Feld", S.THROUGH, _WALKER | K.FARM),
    _where_to("unter", "under", "Tisch", S.HIDEOUT, PET | K.BABY),
    _where_to("unter", "under", "Bett", S.HIDEOUT, PET),
    _where_to("hinter", "behind", "Sofa", S.HIDEOUT, PET | K.BABY),
    _where_to("hinter", "behind", "Haus", S.HIDEOUT, PERSON | PET),
    _where_to("hinter", "behind", "Baum", S.HIDEOUT, K.CHILD | K.RODENT, A),
    _where_to("in", "into", "Wasser", S.JUMP | S.OVER | S.INTO, _WALKER | K.WILD),
    _where_to("in", "into", "See", S.JUMP | S.OVER, _WALKER),
    _where_to("in", "into", "Fluss", S.JUMP | S.OVER, _WALKER | K.WILD),
    _where_to("auf", "onto", "Sofa", S.JUMP, K.CHILD | PET),
    _where_to("auf", "onto", "Bett", S.JUMP, K.CHILD | PET),
    _where_to("auf", "onto", "Tisch", S.JUMP, K.CAT),
    _where_to("auf", "onto", "Mauer", S.JUMP | S.CLIMB, K.CHILD | K.CAT, EITHER),
    _where_to("über", "over", "Zaun", S.JUMP | S.OVER | S.CLIMB, _LEAPER | K.MONKEY, EITHER),
    _where_to("über", "over", "Mauer", S.JUMP | S.OVER | S.CLIMB, _LEAPER, EITHER),
    _where_to("auf", "up", "Baum", S.CLIMB, K.CHILD | K.CLIMBER, A),
    _where_to("auf", "up", "Apfelbaum", S.CLIMB, K.CHILD | K.CAT, A),
    _where_to("auf", "up", "Leiter", S.CLIMB, PERSON, A),
    _where_to("auf", "up", "Berg", S.CLIMB, PERSON, EITHER),
    _where_to("auf", "onto", "Dach", S.CLIMB | S.FLIGHT, K.WORKER | K.CAT | K.MONKEY | K.BIRD),
    _where_to("über", "over", "See", S.FLIGHT, K.BIRD | K.POND),
    _where_to("über", "over", "Haus", S.FLIGHT, K.BIRD, EITHER),
    _where_to("über", "over", "Stadt", S.FLIGHT, K.BIRD | K.POND),
    _where_to("über", "over", "Feld", S.FLIGHT, K.BIRD | K.POND),
    _where_to("auf", "on", "Bank", S.SEAT, PERSON, EITHER),
    _where_to("auf", "on", "Stuhl", S.SEAT, PERSON, EITHER),
    _where_to("auf", "on", "Gartenstuhl", S.SEAT, PERSON, A),
    _where_to("auf", "on", "Treppe", S.SEAT, PERSON),
    _where_to("auf", "on", "Boden", S.GROUND, HUMAN | PET),
    _where_to("auf", "on", "Sofa", S.GROUND, HUMAN | PET),
    _where_to("auf", "on", "Decke", S.GROUND, HUMAN | PET, EITHER),
    _where_to("auf", "on", "Teppich", S.GROUND, PET | K.BABY, EITHER),
    _where_to("in", "in", "Gras", S.GROUND, PERSON | K.DOG),
    # where things are put
    _where_to("auf", "on", "Tisch", S.SURFACE, PERSON, EITHER),
    _where_to("auf", "on", "Küchentisch", S.SURFACE, PERSON),
    _where_to("auf", "on", "Stuhl", S.SURFACE, PERSON, EITHER),
    _where_to("in", "on", "Regal", S.SHELF, PERSON),
    _where_to("in", "into", "Korb", S.CONTAINER, PERSON, EITHER),
    _where_to("in", "into", "Tasche", S.CONTAINER, PERSON, EITHER),
    _where_to("in", "into", "Kiste", S.CONTAINER, PERSON, EITHER),
    _where_to("an", "on", "Wand", S.WALL, PERSON),
    _where_to("über", "over", "Sofa", S.WALL, PERSON),
    _where_to("über", "over", "Tisch", S.OVERHEAD, PERSON),
    _where_to("an", "on", "Tür", S.HOOK, PERSON),
)

TIMES = (
    Phrase("am Morgen", "in the morning"),
    Phrase("am Nachmittag", "in the afternoon"),
    Phrase("am Abend", "in the evening"),
    Phrase("am Wochenende", "on the weekend"),
    Phrase("an einem sonnigen Tag", "on a sunny day"),
    Phrase("an einem windigen Tag", "on a windy day"),
    Phrase("bei Sonnenuntergang", "at sunset"),
    Phrase("nach dem Regen", "after the rain"),
)

_RAIN_GEAR = (
    ("tragen", "Regenmantel"),
    ("tragen", "Regenjacke"),
    ("tragen", "Gummistiefel"),
    ("halten", "Regenschirm"),
)
_COLD_GEAR = (("tragen", "Mantel"), ("tragen", "Schal"), ("tragen", "Wollmütze"), ("tragen", "Handschuh"))
_SUN_GEAR = (("tragen", "Sonnenbrille"), ("tragen", "Strohhut"), ("tragen", "Hut"))
_REFRESHMENT = (("trinken", "Wasser"), ("trinken", "Apfelsaft"), ("essen", "Eis"))

RAIN = Weather("es regnet", "it is raining", _RAIN_GEAR)
SNOW = Weather("es schneit", "it is snowing", _COLD_GEAR)
COLD = Weather("es kalt ist", "it is cold", _COLD_GEAR)
HEAT = Weather("es heiß ist", "it is hot", _REFRESHMENT)
SUNSHINE = Weather("die Sonne scheint", "the sun is shining", _SUN_GEAR)
WEATHERS = (RAIN, SNOW, COLD, HEAT, SUNSHINE)

WHILE = Phrase("während", "while")
BECAUSE = Phrase("weil", "because")
ALTHOUGH = Phrase("obwohl", "although")
