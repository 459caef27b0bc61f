# A bucket with one slide, which the tests made.
mc mb --quiet store/slides
mc cp --quiet "$SLIDE" store/slides/2024/case-17.svs
