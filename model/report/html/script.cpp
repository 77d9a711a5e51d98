#include "model/report/html/script.hpp"

namespace plumbline::html {

const std::string_view kTableScript = R"js(
(function () {
  var scale = {n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15};
  function number(text) {
    var found = /^([+-]?[0-9.]+(?:e[+-]?[0-9]+)?)\s*([A-Za-z]*)/.exec(text.trim());
    if (!found) return null;
    var factor = found[2].length > 1 ? scale[found[2][0]] : 1;
    return parseFloat(found[1]) * (factor || 1);
  }
  function sort(table, heading) {
    var up = heading.getAttribute('aria-sort') === 'ascending' ? -1 : 1, column = heading.cellIndex;
    var body = table.tBodies[0], rows = Array.from(body.rows);
    rows.sort(function (a, b) {
      var x = a.cells[column].textContent, y = b.cells[column].textContent, p = number(x), q = number(y);
      var both = p === null ? false : q !== null;
      return up * (both ? p - q : x.localeCompare(y));
    });
    Array.from(table.tHead.rows[0].cells).forEach(function (each) { each.removeAttribute('aria-sort'); });
    heading.setAttribute('aria-sort', up === 1 ? 'ascending' : 'descending');
    rows.forEach(function (row) { body.appendChild(row); });
  }
  document.querySelectorAll('table.sorts').forEach(function (table) {
    Array.from(table.tHead.rows[0].cells).forEach(function (heading) {
      heading.tabIndex = 0;
      heading.addEventListener('click', function () { sort(table, heading); });
      heading.addEventListener('keydown', function (event) { if (event.key === 'Enter') sort(table, heading); });
    });
    var field = document.createElement('input');
    field.type = 'search';
    field.placeholder = 'rows that hold ...';
    field.setAttribute('aria-label', 'filter rows');
    field.className = 'filter';
    field.addEventListener('input', function () {
      var words = field.value.toLowerCase().split(/\s+/);
      Array.from(table.tBodies[0].rows).forEach(function (row) {
        var text = row.textContent.toLowerCase();
        row.hidden = !words.every(function (word) { return text.includes(word); });
      });
    });
    table.parentNode.parentNode.insertBefore(field, table.parentNode);
  });
}());
)js";

}  // namespace plumbline::html
