"""From bytes of unknown quality to pages, words with boxes, and fields with an honest confidence. No database."""
