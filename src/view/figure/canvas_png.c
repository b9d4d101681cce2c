/* Figures as PNG, by libcairo: loaded at run time, since few servers have it and an SVG needs nothing. */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "view/figure/canvas.h"

enum {
        CAIRO_FORMAT_RGB24 = 1,
        CAIRO_SLANT_NORMAL = 0,
        CAIRO_WEIGHT_NORMAL = 0,
        CAIRO_CAP_ROUND = 1,
        CAIRO_JOIN_ROUND = 1
};

typedef struct {
        double x_bearing, y_bearing, width, height, x_advance, y_advance;
} cairo_extents;

/* Of cairo.h, those that are used. */
#define CAIRO(F)                                                            \
        F(void *, image_surface_create, (int, int, int) )                   \
        F(void *, create, (void *) )                                        \
        F(void, destroy, (void *) )                                         \
        F(void, surface_destroy, (void *) )                                 \
        F(int, surface_status, (void *) )                                   \
        F(void, set_source_rgba, (void *, double, double, double, double) ) \
        F(void, set_line_width, (void *, double) )                          \
        F(void, set_line_cap, (void *, int) )                               \
        F(void, set_line_join, (void *, int) )                              \
        F(void, set_dash, (void *, const double *, int, double) )           \
        F(void, new_path, (void *) )                                        \
        F(void, move_to, (void *, double, double) )                         \
        F(void, line_to, (void *, double, double) )                         \
        F(void, close_path, (void *) )                                      \
        F(void, rectangle, (void *, double, double, double, double) )       \
        F(void, stroke, (void *) )                                          \
        F(void, fill, (void *) )                                            \
        F(void, scale, (void *, double, double) )                           \
        F(void, select_font_face, (void *, const char *, int, int) )        \
        F(void, set_font_size, (void *, double) )                           \
        F(void, text_extents, (void *, const char *, cairo_extents *) )     \
        F(void, show_text, (void *, const char *) )                         \
        F(int, surface_write_to_png_stream, (void *, int (*)(void *, const unsigned char *, unsigned), void *) )

struct cairo {
        void *library, *surface, *context;
#define FIELD(ret, name, args) ret(*name) args;
        CAIRO(FIELD)
#undef FIELD
};

enum { MOST_PIXELS = 32767 }; /* on a side: cairo's own bound */
enum { SCALE = 2 };           /* pixels per unit, so that text is sharp on fine screens */

static int load(struct cairo *c, struct infp_err *err)
{
        c->library = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
        if (!c->library)
                return infp_fail(
                        err, -ENOENT,
                        "PNG needs libcairo.so.2 (Debian: apt-get install libcairo2); SVG needs nothing: -o FILE.svg");
#define LOAD(ret, name, args)                                    \
        *(void **) &c->name = dlsym(c->library, "cairo_" #name); \
        if (!c->name)                                            \
                return infp_fail(err, -ENOENT, "libcairo.so.2 has no cairo_" #name "; SVG needs nothing: -o FILE.svg");
        CAIRO(LOAD)
#undef LOAD
        return 0;
}

static void set_ink(struct cairo *c, unsigned ink, double alpha)
{
        const uint32_t rgb = infp_ink_light[ink];

        c->set_source_rgba(c->context, (rgb >> 16) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0, alpha);
}

static int begin(struct infp_canvas *canvas, const char *title, const char *about, struct infp_err *err)
{
        struct cairo *c = calloc(1, sizeof(*c));

        (void) title;
        (void) about;
        canvas->state = c;
        if (!c)
                return infp_fail(err, -ENOMEM, "no memory for the picture");
        if (canvas->width * SCALE > MOST_PIXELS || canvas->height * SCALE > MOST_PIXELS)
                return infp_fail(err, -EFBIG,
                                 "a PNG of %.0f x %.0f pixels is too large, %d on a side at most: name fewer metrics, "
                                 "make the panels smaller with --size, or write an SVG: -o FILE.svg",
                                 canvas->width * SCALE, canvas->height * SCALE, MOST_PIXELS);
        INFP_TRY(load(c, err));
        c->surface =
                c->image_surface_create(CAIRO_FORMAT_RGB24, (int) canvas->width * SCALE, (int) canvas->height * SCALE);
        if (c->surface_status(c->surface))
                return infp_fail(err, -ENOMEM, "no memory for a picture of %.0f x %.0f pixels", canvas->width * SCALE,
                                 canvas->height * SCALE);
        c->context = c->create(c->surface);
        c->scale(c->context, SCALE, SCALE);
        c->set_line_join(c->context, CAIRO_JOIN_ROUND);
        c->set_line_cap(c->context, CAIRO_CAP_ROUND);
        c->select_font_face(c->context, "sans-serif", CAIRO_SLANT_NORMAL, CAIRO_WEIGHT_NORMAL);
        return 0;
}

static void put_points(struct cairo *c, const double *points, size_t n)
{
        bool is_down = false;

        c->new_path(c->context);
        for (size_t i = 0; i < n; i++) {
                const double x = points[2 * i], y = points[2 * i + 1];

                if (isnan(x) || isnan(y)) {
                        is_down = false;
                        continue;
                }
                if (!is_down)
                        c->move_to(c->context, x, y);
                c->line_to(c->context, x, y); /* a line to itself is a dot */
                is_down = true;
        }
}

static void line(struct infp_canvas *canvas, const double *points, size_t n, unsigned ink, double width, bool is_dashed)
{
        static const double dashes[] = { 6, 4 };
        struct cairo *c = canvas->state;

        set_ink(c, ink, 1);
        c->set_line_width(c->context, width);
        c->set_dash(c->context, dashes, is_dashed ? 2 : 0, 0);
        put_points(c, points, n);
        c->stroke(c->context);
}

static void area(struct infp_canvas *canvas, const double *points, size_t n, unsigned ink)
{
        struct cairo *c = canvas->state;

        set_ink(c, ink, 0.25);
        put_points(c, points, n);
        c->close_path(c->context);
        c->fill(c->context);
}

static void box(struct infp_canvas *canvas, double x, double y, double width, double height, unsigned ink)
{
        struct cairo *c = canvas->state;

        set_ink(c, ink, 1);
        c->rectangle(c->context, x, y, width, height);
        c->fill(c->context);
}

/* Invalid UTF-8 would stop all drawing; a control character is a box at best. */
static void text(struct infp_canvas *canvas, double x, double y, double size, enum infp_text_anchor anchor,
                 unsigned ink, const char *string)
{
        static const double shares[] = { 0, 0.5, 1 };
        struct cairo *c = canvas->state;
        infp_autostr struct infp_str tame = { 0 };
        cairo_extents extents;

        infp_text_tame(&tame, string, strlen(string));
        if (!tame.data)
                return;
        set_ink(c, ink, 1);
        c->set_font_size(c->context, size);
        c->text_extents(c->context, tame.data, &extents);
        c->move_to(c->context, x - extents.x_advance * shares[anchor], y);
        c->show_text(c->context, tame.data);
}

static int write_bytes(void *context, const unsigned char *data, unsigned size)
{
        infp_str_put(context, data, size);
        return 0;
}

static int end(struct infp_canvas *canvas, struct infp_err *err)
{
        struct cairo *c = canvas->state;
        int r = 0;

        if (c && c->context) {
                c->destroy(c->context);
                if (c->surface_write_to_png_stream(c->surface, write_bytes, &canvas->out->text))
                        r = infp_fail(err, -EIO, "libcairo could not make the picture");
        }
        if (c && c->surface)
                c->surface_destroy(c->surface);
        free(c); /* the library stays loaded: it caches fonts */
        canvas->state = NULL;
        return r;
}

const struct infp_canvas_kind infp_canvas_png = {
        .extension = "png",
        .begin = begin,
        .line = line,
        .area = area,
        .box = box,
        .text = text,
        .end = end,
};
