"""Rules of the grammar for people, animals and things: "ein kleiner Junge in einer roten Jacke"."""

from course_lib.translation.data.captions import selection
from course_lib.translation.data.captions.choices import Choices, DeadEnd
from course_lib.translation.data.captions.nouns import GROUP, HAIR
from course_lib.translation.data.captions.tree import Joined, NounPhrase, PrepositionalPhrase, Subject
from course_lib.translation.data.captions.verbs import PERSON, RELATIVE
from course_lib.translation.data.captions.words import (
    Adjective,
    Case,
    Determiner,
    Kind,
    Noun,
    Setting,
    Trait,
    Verb,
)

WEARABLE = Kind.HEADWEAR | Kind.GARMENT | Kind.SCARF | Kind.DRESS | Kind.FOOTWEAR | Kind.EYEWEAR
QUANTITIES = (
    Determiner.TWO,
    Determiner.THREE,
    Determiner.FOUR,
    Determiner.FIVE,
    Determiner.SOME,
    Determiner.SEVERAL,
    Determiner.MANY,
)
_QUANTITY_WEIGHTS = (3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0)
_EVERYDAY = ("Mann", "Frau", "Kind", "Junge", "Mädchen", "Hund", "Katze")
# What can be "the boy's", and what can be "his".
_BELONGINGS = Kind.CYCLE | Kind.MOTOR | Kind.BAG | Kind.TOY | Kind.DOG | Kind.CAT | Kind.MOUNT
_PERSONAL = (
    WEARABLE | RELATIVE | Kind.DOG | Kind.CAT | Kind.KEY | Kind.PHONE | Kind.BAG | Kind.UMBRELLA | Kind.BALL
)


def nouns_of(subject: Subject) -> tuple[Noun, ...]:
    """Who the subject is: one noun, or both, or the members of a group."""
    if isinstance(subject, Joined):
        return (subject.first.noun, subject.second.noun)
    if subject.noun is GROUP and subject.attribute:
        return (subject.attribute.phrase.noun,)
    return (subject.noun,)


def possessive_of(subject: Subject) -> Determiner | None:
    """The word for what is the subject's own: "sein", "ihr", or none.

    A "Mädchen" is neuter, and whether "sein" or "ihr" is hers is disputed: the corpus avoids both.
    """
    if isinstance(subject, Joined) or not subject.noun.kinds & PERSON:
        return None
    if subject.plural:
        return Determiner.THEIR
    if subject.noun.kinds & Kind.MALE:
        return Determiner.HIS
    return Determiner.HER if subject.noun.kinds & Kind.FEMALE else None


class NounPhrases(Choices):
    """Chooses nouns, determiners, adjectives and what follows a noun."""

    def adjectives(self, described: Noun, probability: float) -> tuple[Adjective, ...]:
        """One adjective that fits, or none."""
        options = selection.adjectives(described)
        share = probability / len(options) if options else 0.0
        chosen = self.choose((None, *options), (1.0 - probability, *(share for _ in options)))
        return (chosen,) if chosen else ()

    def amount(self, probability: float) -> Determiner:
        """A number or a word like "viele" with that probability, else "ein"."""
        share = probability / sum(_QUANTITY_WEIGHTS)
        weights = (1.0 - probability, *(share * weight for weight in _QUANTITY_WEIGHTS))
        return self.choose((Determiner.A, *QUANTITIES), weights)

    def actor(self, kinds: Kind, also: Kind | None = None) -> Noun:
        """Someone of these kinds; everyday people more often than policemen."""
        options = [one for one in selection.actors(kinds) if also is None or one in selection.actors(also)]
        return self.choose(options, [3.0 if one.german in _EVERYDAY else 1.0 for one in options])

    def indefinite_actor(self, actor: Noun) -> NounPhrase:
        """As in "ein kleiner brauner Hund" or "drei Kinder"."""
        determiner = self.amount(0.25)
        adjectives = self.adjectives(actor, 0.5)
        colours = selection.colours(actor) if not actor.kinds & PERSON else ()
        if adjectives and not adjectives[0].colour and colours and self.chance(0.4):
            adjectives = (*adjectives, self.choose(colours))
        return NounPhrase(actor, determiner, determiner is not Determiner.A, adjectives)

    def definite_actor(self, actor: Noun) -> NounPhrase:
        """As in "der alte Mann", "die Kinder", "der Hund der Lehrerin"."""
        if actor.kinds & _BELONGINGS and self.chance(0.5):
            return NounPhrase(actor, Determiner.THE, owner=self._owner())
        return NounPhrase(actor, Determiner.THE, self.chance(0.2), self.adjectives(actor, 0.4))

    def crowd(self, actor: Noun) -> NounPhrase:
        """As in "eine Gruppe von jungen Frauen": one group, so a singular verb."""
        members = NounPhrase(actor, Determiner.BARE, plural=True, adjectives=self.adjectives(actor, 0.4))
        of_members = PrepositionalPhrase("von", "of", Case.DATIVE, members)
        return NounPhrase(GROUP, Determiner.A, attribute=of_members)

    def pair(self, verb: Verb) -> Joined:
        """As in "ein Mann und eine Frau" or "eine alte Dame und ihr Hund"."""
        first = self.actor(verb.subjects)
        leader = NounPhrase(first, Determiner.A, adjectives=self.adjectives(first, 0.4))
        possessive = possessive_of(leader)
        partners = PERSON | Kind.DOG if first.kinds & PERSON else first.kinds
        others = [one for one in selection.actors(verb.subjects) if one.kinds & partners and one is not first]
        if possessive and verb.subjects & PERSON and self.chance(0.4):
            others = list(selection.nouns(RELATIVE if first.kinds & Kind.CHILD else Kind.FRIEND))
        second = self.choose(others)
        own = possessive if second.kinds & (RELATIVE | Kind.DOG) else None
        return Joined(
            leader, NounPhrase(second, own or Determiner.A, adjectives=self.adjectives(second, 0.3))
        )

    def companion(self, subject: Subject) -> PrepositionalPhrase:
        """As in "mit seinem Hund" or "mit einer Freundin"."""
        people = nouns_of(subject)
        if not all(one.kinds & PERSON for one in people):
            raise DeadEnd
        possessive = possessive_of(subject)
        child = all(one.kinds & Kind.CHILD for one in people)
        friend = self.choose(selection.nouns(Kind.DOG | (RELATIVE if possessive and child else Kind.FRIEND)))
        only_own = not friend.kinds & Kind.FRIEND
        determiner = possessive if possessive and (only_own or self.chance(0.5)) else Determiner.A
        phrase = NounPhrase(friend, determiner, adjectives=self.adjectives(friend, 0.2))
        return PrepositionalPhrase("mit", "with", Case.DATIVE, phrase)

    def attribute(self, person: NounPhrase) -> PrepositionalPhrase:
        """As in "in einer blauen Jacke", "mit einem Hut", "mit langen Haaren", "ohne Schuhe"."""
        sort = self.choose(("in", "mit", "Haare", "ohne"), (0.35, 0.25, 0.22, 0.18))
        if sort == "Haare":
            return PrepositionalPhrase("mit", "with", Case.DATIVE, self.hairdo())
        if sort == "in":
            kinds = Kind.GARMENT | Kind.DRESS if person.noun.kinds & Kind.FEMALE else Kind.GARMENT
            garment = self.choose(selection.nouns(kinds))
            return PrepositionalPhrase("in", "in", Case.DATIVE, self.worn(garment, person))
        thing = self.choose(selection.nouns(Kind.HEADWEAR | Kind.SCARF | Kind.EYEWEAR | Kind.FOOTWEAR))
        if sort == "mit":
            return PrepositionalPhrase("mit", "with", Case.DATIVE, self.worn(thing, person))
        bare = NounPhrase(thing, Determiner.A, plural=_worn_in_plural(thing, person))
        return PrepositionalPhrase("ohne", "without", Case.ACCUSATIVE, bare, without=True)

    def hairdo(self) -> NounPhrase:
        """As in "lange blonde Haare"."""
        adjectives = [self.choose(selection.qualities(HAIR))]
        if self.chance(0.6):
            adjectives.append(self.choose(selection.colours(HAIR)))
        return NounPhrase(HAIR, Determiner.BARE, plural=True, adjectives=tuple(adjectives))

    def worn(self, thing: Noun, wearer: Subject) -> NounPhrase:
        """Clothes on a body: several people wear several, and shoes are always several."""
        return NounPhrase(thing, Determiner.A, _worn_in_plural(thing, wearer), self.adjectives(thing, 0.75))

    def several(self, thing: Noun) -> NounPhrase:
        """As in "vier reife Äpfel" or "viele Blumen"."""
        determiner = self.amount(0.8)
        return NounPhrase(thing, determiner, plural=True, adjectives=self.adjectives(thing, 0.4))

    def object(self, verb: Verb, subject: Subject, thing: Noun | None = None) -> NounPhrase:
        """What the verb is done to: the thing given, or any that fits."""
        own = possessive_of(subject)
        if thing is None:
            options = [one for one in selection.nouns(verb.objects) if own or not one.kinds & Kind.PARENT]
            options = [one for one in options if one not in nouns_of(subject)]
            thing = self.choose(options, [selection.rarity(one) for one in options])
        if verb.can(Trait.WORN):
            return self.worn(thing, subject)
        if thing.kinds & Kind.SPORT:
            return NounPhrase(thing, Determiner.BARE)
        if thing.kinds & (Kind.INSTRUMENT | Kind.PIANO):
            return NounPhrase(thing, Determiner.PLAYED)
        if thing.mass:
            return NounPhrase(thing, Determiner.BARE, adjectives=self.adjectives(thing, 0.6))
        if thing.kinds & Kind.PARENT:
            return NounPhrase(thing, own or Determiner.THE)
        if subject.plural and verb.can(Trait.EACH):
            return NounPhrase(thing, Determiner.A, plural=True, adjectives=self.adjectives(thing, 0.5))
        if verb.can(Trait.SEVERAL) or (
            verb.can(Trait.MANY) and not thing.english_number and self.chance(0.3)
        ):
            return self.several(thing)
        possessed = own and verb.can(Trait.OWN) and thing.kinds & _PERSONAL and self.chance(0.45)
        determiner = own if own and possessed else self._article(thing)
        if thing.kinds & WEARABLE:
            return NounPhrase(thing, determiner, _worn_in_plural(thing, subject), self.adjectives(thing, 0.5))
        traded = verb.where & Setting.SHOP  # and nobody sells the teddy bear of somebody else
        if determiner is Determiner.THE and thing.kinds & _BELONGINGS and not traded and self.chance(0.6):
            return NounPhrase(thing, determiner, owner=self._owner())
        return NounPhrase(thing, determiner, adjectives=self.adjectives(thing, 0.45))

    def recipient(self, verb: Verb, subject: Subject) -> NounPhrase:
        """To whom something is given."""
        receiver = self.choose(
            [one for one in selection.actors(verb.recipients) if one not in nouns_of(subject)]
        )
        determiner = self.choose((Determiner.A, Determiner.THE), (0.7, 0.3))
        return NounPhrase(receiver, determiner, adjectives=self.adjectives(receiver, 0.3))

    def thing(self, verb: Verb) -> NounPhrase:
        """A lifeless subject: something that lies, stands or hangs."""
        thing = self.choose(selection.nouns(verb.subjects))
        if verb.can(Trait.MANY) and not thing.english_number and self.chance(0.4):
            return self.several(thing)
        return NounPhrase(thing, Determiner.A, adjectives=self.adjectives(thing, 0.6))

    def _article(self, thing: Noun) -> Determiner:
        if thing.kinds & (Kind.FRIEND | WEARABLE):
            return Determiner.A
        expected = thing.kinds & (Kind.OPENING | Kind.TRANSIT | Kind.TRAIN)
        return self.choose((Determiner.A, Determiner.THE), (0.3, 0.7) if expected else (0.85, 0.15))

    def _owner(self) -> NounPhrase:
        owner = self.actor(PERSON)
        return NounPhrase(owner, Determiner.THE, adjectives=self.adjectives(owner, 0.3))


def _worn_in_plural(thing: Noun, wearer: Subject) -> bool:
    return wearer.plural or bool(thing.kinds & Kind.FOOTWEAR)
