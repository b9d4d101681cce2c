/* Where stacks are, in the words of who wrote the program: of the functions of a stack the innermost of the program's own files, else of
 * a package, else of Python's library, else the innermost native one outside the C and C++ libraries and allocators, else the innermost of all. */
#pragma once

#include "analyze/profile/profile.h"

struct infp_profile_place {
        uint32_t function, file; /* strings of the profile; 0: not known */
        int64_t line;            /* 0: not known */
        double seconds;
        uint32_t node; /* INFP_PROFILE_NONE: there is no stack */
};
/* has_packages: those of packages are as good as the program's own. */
struct infp_profile_place infp_profile_place_of(const struct infp_profile *profile, uint32_t node, bool has_packages);

struct infp_profile_places {
        struct infp_profile_place *list;
        uint32_t n, cap;
};

/* Adds the time of a stack to that of its place. -ENOMEM. */
int infp_profile_places_add(struct infp_profile_places *places, const struct infp_profile *profile, uint32_t node,
                            double seconds);
void infp_profile_places_sort(struct infp_profile_places *places); /* those of the most time first */
void infp_profile_places_done(struct infp_profile_places *places);
