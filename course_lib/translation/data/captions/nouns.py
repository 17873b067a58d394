"""The nouns of the lexicon, listed with their article as in a German vocabulary book."""

from functools import partial

from course_lib.translation.data.captions.words import Gender, Kind, Noun


def _noun(gender: Gender, german: str, plural: str, english: str, kinds: Kind, **more: str | bool) -> Noun:
    return Noun(german, gender, plural, english, kinds, **more)  # type: ignore[arg-type]


der = partial(_noun, Gender.MASCULINE)
die = partial(_noun, Gender.FEMININE)
das = partial(_noun, Gender.NEUTER)

K = Kind
_MAN = K.MALE | K.ADULT
_WOMAN = K.FEMALE | K.ADULT

PEOPLE = (
    der("Mann", "Männer", "man", _MAN | K.CROWD, english_plural="men"),
    der("Bauer", "Bauern", "farmer", _MAN, weak=True),
    der("Koch", "Köche", "cook", _MAN),
    der("Arbeiter", "Arbeiter", "worker", _MAN | K.WORKER | K.CROWD),
    der("Polizist", "Polizisten", "policeman", _MAN, weak=True, english_plural="policemen"),
    der("Musiker", "Musiker", "musician", _MAN | K.PERFORMER | K.CROWD),
    der("Straßenmusiker", "Straßenmusiker", "street musician", _MAN | K.PERFORMER, compound=True),
    der("Tourist", "Touristen", "tourist", _MAN | K.CROWD, weak=True),
    der("Student", "Studenten", "student", _MAN | K.CROWD, weak=True),
    der("Fotograf", "Fotografen", "photographer", _MAN, weak=True),
    der("Gärtner", "Gärtner", "gardener", _MAN),
    die("Frau", "Frauen", "woman", _WOMAN | K.CROWD, english_plural="women"),
    die("Dame", "Damen", "lady", _WOMAN),
    die("Lehrerin", "Lehrerinnen", "teacher", _WOMAN),
    die("Ärztin", "Ärztinnen", "doctor", _WOMAN),
    die("Kellnerin", "Kellnerinnen", "waitress", _WOMAN),
    die("Künstlerin", "Künstlerinnen", "artist", _WOMAN),
    die("Sängerin", "Sängerinnen", "singer", _WOMAN | K.PERFORMER),
    die("Tänzerin", "Tänzerinnen", "dancer", _WOMAN | K.CROWD),
    das("Kind", "Kinder", "child", K.CHILD | K.CROWD, english_plural="children"),
    der("Junge", "Jungen", "boy", K.CHILD | K.MALE | K.CROWD, weak=True),
    das("Mädchen", "Mädchen", "girl", K.CHILD | K.CROWD),
    das("Baby", "Babys", "baby", K.BABY),
    der("Vater", "Väter", "father", K.MALE | K.PARENT),
    die("Mutter", "Mütter", "mother", K.FEMALE | K.PARENT),
    der("Großvater", "Großväter", "grandfather", K.MALE | K.PARENT, compound=True),
    die("Großmutter", "Großmütter", "grandmother", K.FEMALE | K.PARENT, compound=True),
    der("Freund", "Freunde", "friend", K.MALE | K.FRIEND),
    die("Freundin", "Freundinnen", "friend", K.FEMALE | K.FRIEND),
)

GROUP = die("Gruppe", "Gruppen", "group", Kind(0))

ANIMALS = (
    der("Hund", "Hunde", "dog", K.DOG | K.GROWN),
    der("Welpe", "Welpen", "puppy", K.DOG, weak=True),
    die("Katze", "Katzen", "cat", K.CAT | K.GROWN | K.CLIMBER),
    das("Kätzchen", "Kätzchen", "kitten", K.CAT | K.CLIMBER),
    das("Pferd", "Pferde", "horse", K.FARM | K.MOUNT),
    der("Esel", "Esel", "donkey", K.FARM | K.MOUNT),
    die("Kuh", "Kühe", "cow", K.FARM),
    das("Schaf", "Schafe", "sheep", K.FARM, english_plural="sheep"),
    die("Ziege", "Ziegen", "goat", K.FARM),
    der("Vogel", "Vögel", "bird", K.BIRD),
    die("Taube", "Tauben", "pigeon", K.BIRD),
    die("Ente", "Enten", "duck", K.POND),
    die("Gans", "Gänse", "goose", K.POND, english_plural="geese"),
    das("Kaninchen", "Kaninchen", "rabbit", K.RODENT),
    das("Eichhörnchen", "Eichhörnchen", "squirrel", K.RODENT | K.CLIMBER),
    die("Maus", "Mäuse", "mouse", K.RODENT, english_plural="mice"),
    der("Affe", "Affen", "monkey", K.WILD | K.MONKEY | K.CLIMBER, weak=True),
    der("Elefant", "Elefanten", "elephant", K.WILD, weak=True),
    der("Bär", "Bären", "bear", K.WILD, weak=True),
)

CLOTHES = (
    der("Hut", "Hüte", "hat", K.HEADWEAR),
    der("Strohhut", "Strohhüte", "straw hat", K.HEADWEAR, compound=True),
    die("Mütze", "Mützen", "cap", K.HEADWEAR),
    die("Wollmütze", "Wollmützen", "wool cap", K.HEADWEAR, compound=True),
    der("Helm", "Helme", "helmet", K.HEADWEAR),
    der("Fahrradhelm", "Fahrradhelme", "bicycle helmet", K.HEADWEAR, compound=True),
    die("Jacke", "Jacken", "jacket", K.GARMENT | K.WARM_WEAR),
    die("Lederjacke", "Lederjacken", "leather jacket", K.GARMENT, compound=True),
    die("Regenjacke", "Regenjacken", "rain jacket", K.GARMENT, compound=True),
    der("Mantel", "Mäntel", "coat", K.GARMENT | K.WARM_WEAR),
    der("Regenmantel", "Regenmäntel", "raincoat", K.GARMENT, compound=True),
    der("Pullover", "Pullover", "sweater", K.GARMENT | K.WARM_WEAR),
    der("Schal", "Schals", "scarf", K.SCARF | K.WARM_WEAR, english_plural="scarves"),
    das("Hemd", "Hemden", "shirt", K.GARMENT),
    das("T-Shirt", "T-Shirts", "T-shirt", K.GARMENT),
    die("Schürze", "Schürzen", "apron", K.GARMENT),
    die("Hose", "Hosen", "pants", K.GARMENT, english_number="plural"),
    das("Kleid", "Kleider", "dress", K.DRESS),
    das("Sommerkleid", "Sommerkleider", "summer dress", K.DRESS, compound=True),
    der("Rock", "Röcke", "skirt", K.DRESS),
    der("Schuh", "Schuhe", "shoe", K.FOOTWEAR),
    der("Stiefel", "Stiefel", "boot", K.FOOTWEAR),
    der("Gummistiefel", "Gummistiefel", "rubber boot", K.FOOTWEAR, compound=True),
    der("Handschuh", "Handschuhe", "glove", K.FOOTWEAR, compound=True),
    die("Brille", "Brillen", "glasses", K.EYEWEAR, english_number="plural"),
    die("Sonnenbrille", "Sonnenbrillen", "sunglasses", K.EYEWEAR, english_number="plural", compound=True),
)

HAIR = das("Haar", "Haare", "hair", K.HAIR, english_number="singular")

THINGS = (
    der("Ball", "Bälle", "ball", K.BALL),
    der("Fußball", "Fußbälle", "soccer ball", K.BALL, compound=True),
    der("Tennisball", "Tennisbälle", "tennis ball", K.BALL, compound=True),
    der("Schneeball", "Schneebälle", "snowball", K.SNOWBALL, compound=True),
    der("Stock", "Stöcke", "stick", K.STICK),
    der("Stein", "Steine", "stone", K.STICK),
    die("Puppe", "Puppen", "doll", K.TOY),
    der("Teddybär", "Teddybären", "teddy bear", K.TOY, weak=True, compound=True),
    das("Spielzeugauto", "Spielzeugautos", "toy car", K.TOY, compound=True),
    der("Luftballon", "Luftballons", "balloon", K.TOY, compound=True),
    der("Korb", "Körbe", "basket", K.BAG),
    die("Tasche", "Taschen", "bag", K.BAG | K.LIDDED),
    die("Einkaufstasche", "Einkaufstaschen", "shopping bag", K.BAG | K.LIDDED, compound=True),
    der("Rucksack", "Rucksäcke", "backpack", K.BAG | K.LIDDED, compound=True),
    der("Koffer", "Koffer", "suitcase", K.BAG | K.LIDDED),
    die("Kiste", "Kisten", "box", K.BAG | K.LIDDED),
    der("Eimer", "Eimer", "bucket", K.BAG),
    der("Regenschirm", "Regenschirme", "umbrella", K.UMBRELLA, compound=True),
    die("Leiter", "Leitern", "ladder", K.LADDER),
    die("Tasse", "Tassen", "cup", K.VESSEL),
    die("Kaffeetasse", "Kaffeetassen", "coffee cup", K.VESSEL, compound=True),
    der("Teller", "Teller", "plate", K.VESSEL),
    die("Flasche", "Flaschen", "bottle", K.VESSEL | K.BOTTLE),
    die("Wasserflasche", "Wasserflaschen", "water bottle", K.VESSEL | K.BOTTLE, compound=True),
    die("Schüssel", "Schüsseln", "bowl", K.VESSEL),
    die("Vase", "Vasen", "vase", K.VESSEL),
    der("Schlüssel", "Schlüssel", "key", K.SMALL | K.KEY),
    das("Handy", "Handys", "cell phone", K.SMALL | K.PHONE),
    die("Kamera", "Kameras", "camera", K.SMALL),
    das("Messer", "Messer", "knife", K.CUTLERY, english_plural="knives"),
    die("Decke", "Decken", "blanket", K.TEXTILE),
    das("Kissen", "Kissen", "pillow", K.TEXTILE),
    das("Handtuch", "Handtücher", "towel", K.TEXTILE, compound=True),
    das("Buch", "Bücher", "book", K.BOOK),
    das("Kinderbuch", "Kinderbücher", "children's book", K.BOOK, compound=True),
    die("Zeitung", "Zeitungen", "newspaper", K.PAPER),
    die("Zeitschrift", "Zeitschriften", "magazine", K.PAPER),
    die("Landkarte", "Landkarten", "map", K.PICTURE, compound=True),
    der("Brief", "Briefe", "letter", K.LETTER),
    die("Postkarte", "Postkarten", "postcard", K.LETTER, compound=True),
    das("Bild", "Bilder", "picture", K.PICTURE),
    der("Spiegel", "Spiegel", "mirror", K.PICTURE),
    die("Uhr", "Uhren", "clock", K.CLOCK),
    die("Lampe", "Lampen", "lamp", K.LAMP),
    die("Kerze", "Kerzen", "candle", K.CANDLE),
    die("Blume", "Blumen", "flower", K.FLOWER | K.HARVEST),
    die("Rose", "Rosen", "rose", K.FLOWER | K.HARVEST),
    die("Hundeleine", "Hundeleinen", "dog leash", K.LEASH, compound=True),
)

FOOD = (
    der("Apfel", "Äpfel", "apple", K.FRUIT | K.HARVEST),
    die("Birne", "Birnen", "pear", K.FRUIT | K.HARVEST),
    die("Banane", "Bananen", "banana", K.FRUIT),
    die("Orange", "Orangen", "orange", K.FRUIT),
    die("Erdbeere", "Erdbeeren", "strawberry", K.FRUIT | K.HARVEST, compound=True),
    die("Tomate", "Tomaten", "tomato", K.VEGETABLE, english_plural="tomatoes"),
    die("Karotte", "Karotten", "carrot", K.VEGETABLE),
    der("Kuchen", "Kuchen", "cake", K.BAKED),
    der("Apfelkuchen", "Apfelkuchen", "apple cake", K.BAKED, compound=True),
    die("Pizza", "Pizzas", "pizza", K.BAKED | K.SNACK),
    der("Keks", "Kekse", "cookie", K.BAKED | K.SNACK),
    das("Brot", "Brote", "bread", K.BREAD, mass=True),
    die("Suppe", "Suppen", "soup", K.MEAL, mass=True),
    die("Tomatensuppe", "Tomatensuppen", "tomato soup", K.MEAL, mass=True, compound=True),
    der("Reis", "", "rice", K.MEAL, mass=True),
    das("Eis", "", "ice cream", K.FROZEN, mass=True),
    das("Schokoladeneis", "", "chocolate ice cream", K.FROZEN, mass=True, compound=True),
    das("Wasser", "", "water", K.DRINK | K.WATER, mass=True),
    die("Milch", "", "milk", K.DRINK, mass=True),
    der("Apfelsaft", "Apfelsäfte", "apple juice", K.DRINK, mass=True, compound=True),
    der("Orangensaft", "Orangensäfte", "orange juice", K.DRINK, mass=True, compound=True),
    der("Kaffee", "Kaffees", "coffee", K.HOT_DRINK, mass=True),
    der("Tee", "Tees", "tea", K.HOT_DRINK, mass=True),
    das("Gras", "Gräser", "grass", K.FODDER, mass=True),
)

PLAYED = (
    die("Gitarre", "Gitarren", "guitar", K.INSTRUMENT),
    die("Geige", "Geigen", "violin", K.INSTRUMENT),
    die("Flöte", "Flöten", "flute", K.INSTRUMENT),
    die("Trompete", "Trompeten", "trumpet", K.INSTRUMENT),
    das("Klavier", "Klaviere", "piano", K.PIANO),
    # the game, beside the "soccer ball" above
    der("Fußball", "", "soccer", K.SPORT, mass=True, compound=True),
    das("Tennis", "", "tennis", K.SPORT, mass=True),
)

VEHICLES = (
    das("Fahrrad", "Fahrräder", "bicycle", K.CYCLE, compound=True),
    das("Motorrad", "Motorräder", "motorcycle", K.MOTORBIKE, compound=True),
    der("Roller", "Roller", "scooter", K.CYCLE),
    das("Auto", "Autos", "car", K.MOTOR),
    der("Lastwagen", "Lastwagen", "truck", K.MOTOR, compound=True),
    der("Traktor", "Traktoren", "tractor", K.MOTOR),
    der("Bus", "Busse", "bus", K.TRANSIT, genitive="Busses"),
    das("Taxi", "Taxis", "taxi", K.TRANSIT),
    der("Zug", "Züge", "train", K.TRAIN),
    das("Boot", "Boote", "boat", K.BOAT),
    der("Kinderwagen", "Kinderwagen", "stroller", K.CART, compound=True),
    der("Einkaufswagen", "Einkaufswagen", "shopping cart", K.TROLLEY, compound=True),
    die("Schubkarre", "Schubkarren", "wheelbarrow", K.CART, compound=True),
    der("Schlitten", "Schlitten", "sled", K.SLED),
)

STRUCTURES = (
    der("Baum", "Bäume", "tree", K.TREE),
    der("Apfelbaum", "Apfelbäume", "apple tree", K.TREE, compound=True),
    die("Tür", "Türen", "door", K.OPENING),
    das("Fenster", "Fenster", "window", K.OPENING),
    das("Haus", "Häuser", "house", K.BUILDING | K.TOWERING),
    die("Kirche", "Kirchen", "church", K.BUILDING | K.TOWERING),
    der("Turm", "Türme", "tower", K.BUILDING | K.TOWERING),
    das("Museum", "Museen", "museum", K.BUILDING, genitive="Museums"),
    der("Tisch", "Tische", "table", K.FURNITURE | K.TABLE),
    der("Küchentisch", "Küchentische", "kitchen table", K.FURNITURE | K.TABLE, compound=True),
    der("Stuhl", "Stühle", "chair", K.FURNITURE | K.SEAT),
    der("Gartenstuhl", "Gartenstühle", "garden chair", K.FURNITURE | K.SEAT, compound=True),
    die("Bank", "Bänke", "bench", K.FURNITURE | K.SEAT),
    die("Parkbank", "Parkbänke", "park bench", K.FURNITURE | K.SEAT, compound=True),
    das("Sofa", "Sofas", "sofa", K.FURNITURE),
    das("Bett", "Betten", "bed", K.FURNITURE),
    der("Teppich", "Teppiche", "rug", K.RUG),
    das("Regal", "Regale", "shelf", K.FURNITURE, english_plural="shelves"),
    der("Zaun", "Zäune", "fence", K.BARRIER),
    die("Mauer", "Mauern", "wall", K.BARRIER),
    die("Wand", "Wände", "wall", K.SITE),
    das("Zelt", "Zelte", "tent", K.TENT),
    der("Schneemann", "Schneemänner", "snowman", K.SNOWMAN, english_plural="snowmen", compound=True),
    die("Sandburg", "Sandburgen", "sandcastle", K.SANDCASTLE, compound=True),
    das("Vogelhaus", "Vogelhäuser", "birdhouse", K.BIRDHOUSE, compound=True),
)

SITES = (
    der("Park", "Parks", "park", K.SITE),
    der("Garten", "Gärten", "garden", K.SITE),
    der("Wald", "Wälder", "forest", K.SITE),
    der("Strand", "Strände", "beach", K.SITE),
    der("See", "Seen", "lake", K.SITE),
    der("Fluss", "Flüsse", "river", K.SITE),
    der("Teich", "Teiche", "pond", K.SITE),
    der("Spielplatz", "Spielplätze", "playground", K.SITE, compound=True),
    der("Markt", "Märkte", "market", K.SITE),
    der("Bauernhof", "Bauernhöfe", "farm", K.SITE, compound=True),
    der("Bahnhof", "Bahnhöfe", "train station", K.SITE, compound=True),
    der("Hafen", "Häfen", "harbor", K.SITE),
    der("Zoo", "Zoos", "zoo", K.SITE),
    der("Berg", "Berge", "mountain", K.SITE),
    der("Hügel", "Hügel", "hill", K.SITE),
    der("Balkon", "Balkone", "balcony", K.SITE),
    der("Supermarkt", "Supermärkte", "supermarket", K.SITE, compound=True),
    der("Schnee", "", "snow", K.SITE, mass=True),
    der("Regen", "", "rain", K.SITE, mass=True),
    der("Boden", "Böden", "ground", K.SITE),
    die("Sonne", "Sonnen", "sun", K.SITE),
    die("Straße", "Straßen", "street", K.SITE),
    die("Wiese", "Wiesen", "meadow", K.SITE),
    die("Stadt", "Städte", "city", K.SITE),
    die("Bushaltestelle", "Bushaltestellen", "bus stop", K.SITE, compound=True),
    die("Brücke", "Brücken", "bridge", K.SITE),
    die("Treppe", "Treppen", "stairs", K.SITE, english_number="plural"),
    die("Küche", "Küchen", "kitchen", K.SITE),
    die("Bibliothek", "Bibliotheken", "library", K.SITE),
    die("Werkstatt", "Werkstätten", "workshop", K.SITE),
    das("Feld", "Felder", "field", K.SITE),
    das("Meer", "Meere", "sea", K.SITE),
    das("Dorf", "Dörfer", "village", K.SITE),
    das("Café", "Cafés", "café", K.SITE),
    das("Restaurant", "Restaurants", "restaurant", K.SITE),
    das("Wohnzimmer", "Wohnzimmer", "living room", K.SITE, compound=True),
    das("Klassenzimmer", "Klassenzimmer", "classroom", K.SITE, compound=True),
    das("Dach", "Dächer", "roof", K.SITE),
)

PARTS = (
    der("Rand", "Ränder", "edge", K.PART),
    die("Mitte", "Mitten", "middle", K.PART),
    das("Ufer", "Ufer", "shore", K.PART),
    das("Ende", "Enden", "end", K.PART),
)

# A lake has a shore and a river a bank; a forest has an edge and a street a side.
RIVERBANK = das("Ufer", "Ufer", "bank", K.PART)
ROADSIDE = der("Rand", "Ränder", "side", K.PART)

NOUNS = (
    *PEOPLE,
    GROUP,
    *ANIMALS,
    *CLOTHES,
    HAIR,
    *THINGS,
    *FOOD,
    *PLAYED,
    *VEHICLES,
    *STRUCTURES,
    *SITES,
    *PARTS,
)

_BY_NAME = {noun.german: noun for noun in reversed(NOUNS)}


def noun(german: str) -> Noun:
    """The noun of that name; the first listed if there are two."""
    return _BY_NAME[german]
