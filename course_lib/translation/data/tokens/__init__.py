"""From text to ids: subwords or words, tokenised once into files that all processes share."""
