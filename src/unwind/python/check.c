#include "unwind/python/check.h"

/* The word that has a member; INFP_PYTHON_CHECK_WORDS: none of those that are read. */
static unsigned word_of(const struct infp_python_check *check, uint16_t member)
{
        const unsigned word = member == INFP_PYTHON_ABSENT || member < check->begin ? INFP_PYTHON_CHECK_WORDS
                                                                                    : (member - check->begin) / 8U;

        return word < INFP_PYTHON_CHECK_WORDS ? word : INFP_PYTHON_CHECK_WORDS;
}

void infp_python_check_of(const struct infp_python_layout *layout, struct infp_python_check *ret)
{
        const struct infp_python_layout *l = layout;
        const uint16_t members[] = { l->code_first_line, l->code_version,  l->code_file,
                                     l->code_name,       l->code_qualname, l->code_line_table };
        const uint16_t texts[] = { l->code_file,
                                   l->code_qualname != INFP_PYTHON_ABSENT ? l->code_qualname : l->code_name };

        *ret = (struct infp_python_check){ .begin = (uint16_t) (l->code_first_line & ~7) };
        for (unsigned i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                const unsigned word = word_of(ret, members[i]);

                if (word < INFP_PYTHON_CHECK_WORDS)
                        ret->mask |= (uint16_t) (1U << word);
        }
        if (l->code_version != INFP_PYTHON_ABSENT)
                return;
        for (unsigned i = 0; i < INFP_PYTHON_CHECK_TEXTS; i++) {
                const unsigned word = word_of(ret, texts[i]);

                if (word < INFP_PYTHON_CHECK_WORDS)
                        ret->texts[ret->n_texts++] = (uint8_t) word;
        }
}
