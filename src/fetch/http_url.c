/* What a URL of the HTTP client may be, and a file with a token. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "fetch/curl.h"
#include "fetch/http.h"
#include "fetch/http_url.h"
#include "model/mask.h"

enum { TOKEN_MAX = 16384 };

static const char unix_scheme[] = "unix://";

void infp_http_url_show(const char *url, char *ret, size_t cap)
{
        char masked[HTTP_URL_MAX + 32];
        size_t n = infp_mask_cmdline(url, strnlen(url, HTTP_URL_MAX), false, masked, sizeof(masked));

        n = infp_text_escape(masked, n, ret, cap - 1);
        ret[n] = 0;
        for (char *c = ret; *c; c++)
                if ((unsigned char) *c < ' ' || *c == 0x7f)
                        *c = '?';
}

/* unix:///run/engine.sock:/metrics -> the socket, and http://localhost/metrics for the request. */
static int parse_unix(const char *url, const char *shown, struct http_url *ret, struct infp_err *err)
{
        const char *path = url + sizeof(unix_scheme) - 1, *colon = strrchr(path, ':');
        size_t size = colon ? (size_t) (colon - path) : strlen(path);
        const char *page = colon ? colon + 1 : "/";

        if (*path != '/' || !size)
                return infp_fail(err, -EINVAL, "%s: a socket needs its absolute path: unix:///PATH:/metrics", shown);
        if (size >= sizeof(ret->socket))
                return infp_fail(err, -EINVAL, "%s: the path of a socket has at most %zu bytes", shown,
                                 sizeof(ret->socket) - 1);
        if (*page != '/')
                return infp_fail(err, -EINVAL,
                                 "%s: after the socket's path come a colon and the page's path: unix:///PATH:/metrics",
                                 shown);
        memcpy(ret->socket, path, size);
        ret->socket[size] = 0;
        memcpy(ret->text, "http://localhost", 16);
        memcpy(ret->text + 16, page, strlen(page) + 1);
        return 0;
}

static int check(const char *text, const char *shown, struct infp_err *err)
{
        char *scheme = NULL, *host = NULL;
        CURLUcode code;
        CURLU *handle;
        int r = 0;

        INFP_TRY(infp_http_available(err));
        handle = infp_curl.url();
        if (!handle)
                return infp_fail_errno(err, -ENOMEM, "%s", shown);
        code = infp_curl.url_set(handle, CURLUPART_URL, text, 0);
        if (code == CURLUE_OK)
                code = infp_curl.url_get(handle, CURLUPART_SCHEME, &scheme, 0);
        if (code == CURLUE_OK)
                code = infp_curl.url_get(handle, CURLUPART_HOST, &host, 0);
        if (code == CURLUE_UNSUPPORTED_SCHEME || (scheme && strcmp(scheme, "http") && strcmp(scheme, "https")))
                r = infp_fail(err, -EINVAL, "%s: a URL begins with http://, https:// or unix://", shown);
        else if (code != CURLUE_OK)
                r = infp_fail(err, -EINVAL, "%s is not a URL: %s", shown,
                              infp_curl.url_strerror ? infp_curl.url_strerror(code) : "it is malformed");
        infp_curl.free(scheme);
        infp_curl.free(host);
        infp_curl.url_cleanup(handle);
        return r;
}

int infp_http_url_parse(const char *url, struct http_url *ret, struct infp_err *err)
{
        char shown[256];

        infp_http_url_show(url, shown, sizeof(shown));
        ret->socket[0] = 0;
        if (strlen(url) > HTTP_URL_MAX)
                return infp_fail(err, -EINVAL, "a URL has at most %d bytes: %.80s...", HTTP_URL_MAX, shown);
        if (!strncmp(url, unix_scheme, sizeof(unix_scheme) - 1))
                INFP_TRY(parse_unix(url, shown, ret, err));
        else if (!strstr(url, "://"))
                return infp_fail(err, -EINVAL, "%s: a URL begins with http://, https:// or unix://", shown);
        else if (strchr("/?#", strstr(url, "://")[3])) /* libcurl would take what follows for the host */
                return infp_fail(err, -EINVAL, "%s: the URL names no host", shown);
        else
                memcpy(ret->text, url, strlen(url) + 1);
        return check(ret->text, shown, err);
}

int infp_http_check_url(const char *url, struct infp_err *err)
{
        struct http_url parsed;

        return infp_http_url_parse(url, &parsed, err);
}

bool infp_http_url_host(const char *url, char ret_host[256], unsigned *ret_port)
{
        const char *at = strstr(url, "://"), *end, *user, *colon;
        size_t size;

        if (!at || !strncmp(url, unix_scheme, sizeof(unix_scheme) - 1))
                return false;
        at += 3;
        end = at + strcspn(at, "/?#");
        user = memrchr(at, '@', (size_t) (end - at));
        at = user ? user + 1 : at;
        colon = *at == '[' ? memchr(at, ']', (size_t) (end - at)) : at;
        if (!colon)
                return false;
        colon = memchr(colon, ':', (size_t) (end - colon));
        size = (size_t) ((colon ? colon : end) - at);
        if (*at == '[' && size > 2) {
                at++;
                size -= 2;
        }
        if (!size || size >= 256)
                return false;
        memcpy(ret_host, at, size);
        ret_host[size] = 0;
        *ret_port = colon ? (unsigned) strtoul(colon + 1, NULL, 10) : !strncmp(url, "https", 5) ? 443 : 80;
        return true;
}

/* First line of the file, which is read at each start: tokens of clusters are replaced while we run. */
int infp_http_token(const char *path, struct infp_str *ret, struct infp_err *err)
{
        infp_autofree char *text = malloc(TOKEN_MAX + 1);
        infp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat info;
        ssize_t n;
        size_t size;

        if (!text)
                return infp_fail_errno(err, -ENOMEM, "token file %s", path);
        if (fd < 0 || fstat(fd, &info))
                return infp_fail_errno(err, -errno, "token file %s cannot be read", path);
        if (!S_ISREG(info.st_mode))
                return infp_fail(err, -EINVAL, "token file %s is not a regular file: it is read again for each request",
                                 path);
        n = read(fd, text, TOKEN_MAX);
        if (n < 0)
                return infp_fail_errno(err, -errno, "token file %s cannot be read", path);
        text[n] = 0;
        size = strcspn(text, "\r\n");
        while (size && (text[size - 1] == ' ' || text[size - 1] == '\t'))
                size--;
        if (!size)
                return infp_fail(err, -EINVAL, "token file %s has no token in its first line", path);
        text[size] = 0;
        for (size_t i = 0; i < size; i++)
                if ((unsigned char) text[i] <= ' ' || (unsigned char) text[i] >= 0x7f)
                        return infp_fail(err, -EINVAL, "token file %s has a byte that is not allowed in a token", path);
        if (size == TOKEN_MAX)
                return infp_fail(err, -EINVAL, "token file %s holds more than a token", path);
        infp_str_puts(ret, "Authorization: Bearer ");
        infp_str_put(ret, text, size);
        explicit_bzero(text, size);
        return 0;
}
